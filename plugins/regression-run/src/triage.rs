//! The prompt that has a model run the cases and look into what fails.

use longshore_plugin::prelude::*;

#[derive(Deserialize, JsonSchema)]
pub struct Triage {
    /// The host under test, for example `https://staging.example.com/api`.
    base_url: String,
    /// Only cases whose path contains this or fits this pattern.
    filter: Option<String>,
}

pub fn triage(_: &Context, args: Triage) -> Result<Conversation> {
    let mut call = format!("`base_url` = {:?}", args.base_url);
    if let Some(filter) = args.filter.filter(|filter| !filter.is_empty()) {
        call.push_str(&format!(" and `filter` = {filter:?}"));
    }
    Ok(Conversation::new().about("Regressions, by cause").user(format!(
        "Call the tool `regression-run` with {call} and wait until it has ended. Put the failing \
         cases into groups that have one cause. For each group say which cases belong to it by \
         their files, what was expected and what came, whether the host or the case looks wrong \
         and why, and give the curl command of one case that shows it. Change nothing."
    )))
}
