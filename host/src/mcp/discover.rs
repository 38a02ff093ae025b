//! `server/discover`: who this host is and what it can do. The same for everyone.

use super::envelope::Request;
use super::wire::{self, TASKS_EXTENSION};
use super::{Output, VERSIONS};

/// How long a client may keep the answer, milliseconds. It changes with the host's version only.
const TTL_MS: i128 = 60 * 60 * 1000;

const INSTRUCTIONS: &str = "Longshore runs tools that may take minutes or days. Declare the \
    io.modelcontextprotocol/tasks extension on every request: a slow tool then answers at once with \
    a task id that stays valid across connections and restarts, and tasks/get tells how far it is. \
    Without it a slow call is answered within the request, and closing the request stops the tool. \
    tools/list says under _meta[\"longshore/traits\"] what each tool may ask, what a cancel means \
    for it and whether it survives a restart.";

pub fn discover(request: &Request) -> Output {
    Output::Message(wire::response(&request.id, |result| {
        result
            .text("resultType", "complete")
            .texts("supportedVersions", VERSIONS)
            .object("capabilities", |capabilities| {
                capabilities
                    .object("tools", |tools| {
                        tools.flag("listChanged", true);
                    })
                    .object("prompts", |prompts| {
                        prompts.flag("listChanged", true);
                    })
                    .object("resources", |resources| {
                        resources.flag("listChanged", true).flag("subscribe", true);
                    })
                    .object("completions", |_| {})
                    .object("logging", |_| {})
                    .object("extensions", |extensions| {
                        extensions.object(TASKS_EXTENSION, |_| {});
                    });
            })
            .text("instructions", INSTRUCTIONS)
            .integer("ttlMs", TTL_MS)
            .text("cacheScope", "public");
        wire::result_meta(result, |_| {});
    }))
}
