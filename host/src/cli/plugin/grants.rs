//! `longshore plugin grants`: what people allowed plugins for good while they ran, and taking it
//! back, also while the host runs.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::exit::{Exit, Failure};
use crate::cli::page::Page;
use crate::cli::place::DataArgs;
use crate::cli::print::say;
use crate::cli::{render, text};
use crate::task::TenantId;
use crate::wasm::{Decided, Decisions};

const EXAMPLES: &str = "\
Examples:
  longshore plugin grants
  longshore plugin grants --plugin report-export --revoke
  longshore plugin grants --tenant acme --target https://api.example.com:443/v1/ --revoke

What is taken back is asked again at the next request, and of a directory in the next run. What the operator gives, in longshore.toml, is
shown by `longshore plugin list`.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct GrantsArgs {
    /// Only of this plugin
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,
    /// Only of this tenant
    #[arg(long, value_name = "NAME", value_parser = TenantId::parse)]
    tenant: Option<TenantId>,
    /// Only for this target, as it is listed
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Take back what is listed; needs one of the three above
    #[arg(long)]
    revoke: bool,
    #[command(flatten)]
    data: DataArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &GrantsArgs) -> Result<Exit, Failure> {
    let config = args.data.config()?;
    let is_narrowed = args.plugin.is_some() || args.tenant.is_some() || args.target.is_some();
    if args.revoke && !is_narrowed {
        return Err(Failure::usage(
            "--revoke takes back what is listed; say which with --plugin, --tenant or --target"
                .to_owned(),
        ));
    }
    let folder = config.decisions_dir();
    let unusable =
        |error: std::io::Error| Failure::failed(format!("{}: {error}", folder.display()));
    let decisions = Decisions::new(folder.clone());
    let mut listed = decisions.list().map_err(unusable)?;
    listed.retain(|decided| args.covers(decided));
    if args.revoke {
        for decided in &listed {
            decisions.revoke(decided).map_err(unusable)?;
        }
    }
    match args.json {
        true => render::json(&json!({
            "grants": listed.iter().map(to_json).collect::<Vec<_>>(),
            "revoked": args.revoke,
        })),
        false => print(&listed, args.revoke),
    }
    Ok(Exit::Done)
}

impl GrantsArgs {
    fn covers(&self, decided: &Decided) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        is(&self.plugin, &decided.plugin)
            && is(&self.target, &decided.decision.target)
            && self
                .tenant
                .as_ref()
                .is_none_or(|tenant| *tenant == decided.tenant)
    }
}

fn to_json(decided: &Decided) -> Value {
    json!({
        "tenant": decided.tenant.as_str(),
        "plugin": decided.plugin,
        "target": decided.decision.target,
        "tool": decided.decision.tool,
        "decidedAt": decided.decision.decided_at,
    })
}

fn print(listed: &[Decided], is_revoked: bool) {
    if listed.is_empty() {
        say!("nothing was allowed for good");
        return;
    }
    let mut rows = vec![["tenant", "plugin", "target", "asked by"].map(str::to_owned)];
    for decided in listed {
        rows.push([
            decided.tenant.to_string(),
            text::plain_line(&decided.plugin, 64),
            text::plain_line(&decided.decision.target, 200),
            text::plain_line(&decided.decision.tool, 64),
        ]);
    }
    let mut page = Page::of_terminal();
    page.table(&rows);
    page.print();
    if is_revoked {
        say!("{}", text::green("taken back"));
    }
}
