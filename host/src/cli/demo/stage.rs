//! What the demo plays with: a large CSV file, contract cases, and a host's configuration.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::service::ITEMS;
use crate::cli::exit::Failure;
use crate::cli::print::note;
use crate::cli::text;

/// Enough that even a fast machine shows progress.
const ROWS: u64 = 3_000_000;
/// The row that has a field too few: what makes the tool ask.
const UNEVEN_ROW: u64 = ROWS / 2;
const REGIONS: [&str; 6] = ["North", "South", "East", "West", "Centre", "Overseas"];
const PRODUCTS: [&str; 8] = [
    "bolt", "crate", "fender", "hook", "line", "mooring", "pallet", "winch",
];

/// The demo's directories.
pub struct Stage {
    pub config: PathBuf,
    pub output: PathBuf,
}

impl Stage {
    /// Writes everything anew, but for the CSV file, which is always the same.
    pub fn set(root: &Path, service: SocketAddr) -> Result<Stage, Failure> {
        let stage = Stage {
            config: root.join("longshore.toml"),
            output: root.join("output"),
        };
        stage.write(root, service).map_err(|error| {
            Failure::failed(format!("can't prepare {}: {error}", root.display()))
        })?;
        Ok(stage)
    }

    fn write(&self, root: &Path, service: SocketAddr) -> std::io::Result<()> {
        let cases = root.join("cases");
        // Reports of an earlier demo would only bring up another question.
        for stale in [&self.output, &cases] {
            if stale.exists() {
                std::fs::remove_dir_all(stale)?;
            }
            std::fs::create_dir_all(stale)?;
        }
        std::fs::write(&self.config, config(service))?;
        write_cases(&cases)?;
        let sales = root.join("input/sales.csv");
        if !sales.exists() {
            std::fs::create_dir_all(root.join("input"))?;
            note!("{}", text::dim("writing a CSV file of 3 million rows"));
            let temporary = sales.with_extension("new");
            write_sales(&temporary)?;
            std::fs::rename(&temporary, &sales)?;
        }
        Ok(())
    }
}

/// The arguments of a report over the demo's file.
pub fn report_arguments(output: &str, group_by: &str) -> Value {
    json!({
        "file": "sales.csv",
        "group_by": [group_by],
        "measures": [{ "column": "amount", "functions": ["sum", "mean"] }],
        "output": output,
    })
}

fn config(service: SocketAddr) -> String {
    format!(
        r#"# The demo's host. Paths are relative to this file.
data_dir = "data"

[plugin.report-export.grants]
directories.input = {{ path = "input", access = "read" }}
directories.output = {{ path = "output", access = "write" }}

[plugin.regression-run.grants]
directories.cases = {{ path = "cases", access = "read" }}
http = ["http://{service}/"]
"#
    )
}

fn write_sales(path: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    writeln!(file, "order,date,region,product,quantity,amount")?;
    // A plain linear congruence: the same file on every machine.
    let mut state: u64 = 7;
    for row in 0..ROWS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let draw = (state >> 33) as usize;
        let region = REGIONS[draw % REGIONS.len()];
        let product = PRODUCTS[(draw / 7) % PRODUCTS.len()];
        let (month, day) = (draw / 11 % 12 + 1, draw / 13 % 28 + 1);
        let (quantity, cents) = (draw / 17 % 40 + 1, draw / 19 % 100_000);
        write!(
            file,
            "{row},2026-{month:02}-{day:02},{region},{product},{quantity}"
        )?;
        match row {
            UNEVEN_ROW => writeln!(file)?,
            _ => writeln!(file, ",{}.{:02}", cents / 100, cents % 100)?,
        }
    }
    file.into_inner()?.sync_all()
}

/// One case for each item the service should have, and some that only a better service would pass.
fn write_cases(directory: &Path) -> std::io::Result<()> {
    for id in 1..=ITEMS {
        let mut case = String::new();
        // Writing to a String can't fail.
        let _ = write!(
            case,
            "name = \"item {id} is there\"\n\n[request]\npath = \"/items/{id}\"\n\n[expect]\n\
             status = 200\njson = {{ id = {id}, in_stock = true }}\n\n[expect.headers]\n\
             content-type = \"application/json\"\n"
        );
        std::fs::write(directory.join(format!("item-{id:02}.toml")), case)?;
    }
    std::fs::write(
        directory.join("missing-item.toml"),
        "name = \"an unknown item is not found\"\n\n[request]\npath = \"/items/9999\"\n\n\
         [expect]\nstatus = 404\n",
    )?;
    std::fs::write(
        directory.join("new-order.toml"),
        "name = \"an order is accepted\"\n\n[request]\nmethod = \"POST\"\npath = \"/orders\"\n\
         json = { item = 3, quantity = 2 }\n\n[expect]\nstatus = 201\n",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides};

    #[test]
    fn the_demos_configuration_is_one_the_host_takes() {
        let text = config(SocketAddr::from(([127, 0, 0, 1], 8081)));
        let path = Path::new("demo/longshore.toml");
        let config = Config::parse(&text, path, Overrides::default()).unwrap();
        let given = &config.given["regression-run"];
        assert_eq!(given.http[0].to_string(), "http://127.0.0.1:8081");
        assert_eq!(given.directories["cases"].path, Path::new("demo/cases"));
    }
}
