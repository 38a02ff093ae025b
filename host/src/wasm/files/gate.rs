//! The way into a directory that is not open yet. The guest's first look into one waits here while a
//! person is asked, and the real directory then takes the stand-in's place. One that the host can't
//! open ends the run, in words for whoever can change that (I8); a tool that does not look is not
//! concerned.

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::directories::State;
use crate::task::TenantId;
use crate::wasm::grants::{AskDirectory, CREATE, DirectoryGrant, GrantError};
use crate::wasm::guest::Guest;
use crate::wasm::permission::Wish;
use crate::wasm::quota::Allotment;

type Opened = (Dir, Option<Allotment>);

impl Guest {
    /// Lets the guest into the directory that the descriptor stands for, if it may go there, before
    /// it does `doing` with `path`. The outer error ends the run.
    pub(super) async fn enter(
        &mut self,
        file: &Resource<Descriptor>,
        doing: &str,
        path: &str,
    ) -> wasmtime::Result<Result<(), ErrorCode>> {
        let Some(index) = self.directories.stood_in_for(file) else {
            return Ok(Ok(()));
        };
        let (directory, allotment) = match self.directories.state(index) {
            State::Open(directory, allotment) => (directory, allotment),
            State::Unusable(error) => return Err(unusable(error)),
            State::ToBeAskedFor(asked) => {
                let about = format!("{doing} `{path}` in {}", self.directories.guest_path(index));
                match self.ask_for_directory(asked, &about).await? {
                    Ok(opened) => opened,
                    Err(why) => {
                        self.log.note(&format!("refused to {about}: {why}"));
                        return Ok(Err(ErrorCode::Access));
                    }
                }
            }
        };
        self.directories
            .open(index, directory.clone(), allotment.clone());
        *self.filesystem().table.get_mut(file)? = Descriptor::Dir(directory);
        self.directories.set(file, allotment);
        Ok(Ok(()))
    }

    async fn ask_for_directory(
        &mut self,
        asked: AskDirectory,
        about: &str,
    ) -> wasmtime::Result<Result<Opened, String>> {
        let Some(tenant) = self.run.as_ref().map(|run| run.tenant().clone()) else {
            return Ok(Err("there is nobody to ask".to_owned()));
        };
        let AskDirectory {
            directory,
            remember,
            why,
        } = asked;
        // Nobody is asked for what can't be had.
        let (grant, of) = (directory.clone(), tenant.clone());
        off_thread(&directory, move || grant.look(&of)).await?;
        let wish = Wish {
            target: format!(
                "the directory {}, to {}",
                directory.guest_path(),
                access(&directory)
            ),
            kept_as: kept_as(&directory, &tenant),
            about: about.to_owned(),
            why,
            remember,
            once: "Allow until the tool stops or starts again",
        };
        if let Err(why) = self.decide(&wish).await? {
            return Ok(Err(why));
        }
        let (grant, accounts) = (directory.clone(), self.directories.accounts.clone());
        let opened = off_thread(&directory, move || grant.open(&tenant, &accounts));
        Ok(Ok(opened.await?))
    }
}

/// Looking at the disk may block.
async fn off_thread<T: Send + 'static>(
    directory: &DirectoryGrant,
    look: impl FnOnce() -> Result<T, GrantError> + Send + 'static,
) -> wasmtime::Result<T> {
    let looked = tokio::task::spawn_blocking(look).await;
    let looked = looked.unwrap_or_else(|error| {
        Err(GrantError {
            kind: "directory",
            name: directory.name.clone(),
            remedy: CREATE,
            cause: error.to_string(),
        })
    });
    looked.map_err(unusable)
}

fn unusable(error: GrantError) -> wasmtime::Error {
    tracing::warn!(cause = error.cause, "{error}");
    wasmtime::Error::from(error)
}

fn access(directory: &DirectoryGrant) -> &'static str {
    match directory.write {
        true => "read and write",
        false => "read",
    }
}

/// With its place on the host: what somebody allowed for good does not hold for another one that the
/// operator's rule, or a link on the way, names later.
fn kept_as(directory: &DirectoryGrant, tenant: &TenantId) -> String {
    let away = directory.led_away(tenant);
    let away = away.map(|place| format!(", which is {}", place.display()));
    format!(
        "{} ({}), {}{}",
        directory.guest_path(),
        access(directory),
        directory.path.display(),
        away.unwrap_or_default()
    )
}
