//! The directories of one run: those that are open, those a person has to be asked for, and those
//! that the host can't open. A guest is handed its directories at its start and takes no others later,
//! so one that is not open gets a stand-in: empty, nameless, and taking nothing. What is not led
//! through `gate` finds just that (I5).

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir};
use wasmtime_wasi::{FsPerms, OpenMode};

use crate::task::TenantId;
use crate::wasm::grants::{AskDirectory, DirectoryGrant, GrantError};
use crate::wasm::quota::{Accounts, Allotment};

/// A directory as a run has it.
pub(in crate::wasm) struct Directory {
    /// What the guest sees, `/<name>`.
    guest_path: String,
    state: State,
}

#[derive(Clone)]
pub(super) enum State {
    /// With its quota, if it has one.
    Open(Dir, Option<Allotment>),
    ToBeAskedFor(AskDirectory),
    Unusable(GrantError),
}

impl Directory {
    /// May block.
    pub fn granted(grant: &DirectoryGrant, tenant: &TenantId, accounts: &Accounts) -> Directory {
        Directory {
            guest_path: grant.guest_path(),
            state: match grant.open(tenant, accounts) {
                Ok((directory, allotment)) => State::Open(directory, allotment),
                Err(error) => State::Unusable(error),
            },
        }
    }

    pub fn to_be_asked_for(asked: &AskDirectory) -> Directory {
        Directory {
            guest_path: asked.directory.guest_path(),
            state: State::ToBeAskedFor(asked.clone()),
        }
    }
}

/// A directory that was removed while it was open: nothing is in it, and nothing can be put there.
/// Cheap to clone.
#[derive(Clone)]
pub(in crate::wasm) struct StandIn(Dir);

impl StandIn {
    /// Makes it in `place`, which is as it was afterwards.
    pub fn make(place: &Path) -> io::Result<StandIn> {
        let folder = tempfile::tempdir_in(place)?;
        let opened = File::open(folder.path())?;
        folder.close()?;
        Ok(StandIn(Dir::new(
            opened,
            FsPerms::ReadOnly,
            OpenMode::READ,
            false,
        )))
    }

    /// As the guest is told that the directory is, which some look at before they try.
    fn of(&self, directory: &DirectoryGrant) -> Dir {
        let mut stand_in = self.0.clone();
        (stand_in.perms, stand_in.open_mode) = directory.mode();
        stand_in
    }
}

/// All of one run, and which of the guest's descriptors lie in which.
pub(in crate::wasm) struct Directories {
    all: Vec<Directory>,
    stand_in: StandIn,
    pub(super) accounts: Accounts,
    /// Numbers are used again, and set anew whenever a descriptor is made.
    by_descriptor: HashMap<u32, Place>,
}

/// Where a descriptor leads.
enum Place {
    /// Into a directory with a quota.
    Allotted(Allotment),
    /// To the stand-in of the directory with this index.
    StandIn(usize),
}

type Handle = Resource<Descriptor>;

impl Directories {
    pub fn new(all: Vec<Directory>, stand_in: StandIn, accounts: Accounts) -> Directories {
        Directories {
            all,
            stand_in,
            accounts,
            by_descriptor: HashMap::new(),
        }
    }

    pub fn none(stand_in: StandIn) -> Directories {
        Directories::new(Vec::new(), stand_in, Accounts::default())
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// What the guest gets for a directory, and under which name.
    pub(super) fn hand_out(&self, index: usize) -> (Descriptor, String) {
        let Directory { guest_path, state } = &self.all[index];
        let directory = match state {
            State::Open(directory, _) => directory.clone(),
            State::ToBeAskedFor(asked) => self.stand_in.of(&asked.directory),
            State::Unusable(_) => self.stand_in.0.clone(),
        };
        (Descriptor::Dir(directory), guest_path.clone())
    }

    /// That the guest got the directory as this descriptor.
    pub(super) fn remember(&mut self, file: &Handle, index: usize) {
        match &self.all[index].state {
            State::Open(_, allotment) => self.set(file, allotment.clone()),
            State::ToBeAskedFor(_) | State::Unusable(_) => {
                let place = Place::StandIn(index);
                self.by_descriptor.insert(file.rep(), place);
            }
        }
    }

    /// The quota that what is done with the descriptor counts against.
    pub(super) fn allotment_of(&self, file: &Handle) -> Option<Allotment> {
        match self.by_descriptor.get(&file.rep())? {
            Place::Allotted(allotment) => Some(allotment.clone()),
            Place::StandIn(_) => None,
        }
    }

    pub(super) fn set(&mut self, file: &Handle, allotment: Option<Allotment>) {
        match allotment {
            Some(allotment) => self
                .by_descriptor
                .insert(file.rep(), Place::Allotted(allotment)),
            None => self.by_descriptor.remove(&file.rep()),
        };
    }

    /// Which directory the descriptor stands in for, if for any.
    pub(super) fn stood_in_for(&self, file: &Handle) -> Option<usize> {
        match self.by_descriptor.get(&file.rep())? {
            Place::StandIn(index) => Some(*index),
            Place::Allotted(_) => None,
        }
    }

    pub(super) fn state(&self, index: usize) -> State {
        self.all[index].state.clone()
    }

    pub(super) fn guest_path(&self, index: usize) -> &str {
        &self.all[index].guest_path
    }

    /// The directory was opened, for the rest of the run.
    pub(super) fn open(&mut self, index: usize, directory: Dir, allotment: Option<Allotment>) {
        self.all[index].state = State::Open(directory, allotment);
    }
}
