//! The functions of `wasi:filesystem` that can make a directory grow, each with a look at the
//! directory's quota before it does what it always did; those that only look into one are in `look`.
//! They stand in the place of wasmtime's own in the linker; all others are wasmtime's. A full directory is a full disk to the guest (`ENOSPC`, which
//! the C library of some guests makes an I/O error of when it comes out of a stream).

mod directories;
mod gate;
mod look;
mod stream;

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::WasiFilesystemView;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use self::stream::stream;

use super::guest::Guest;
use super::log::Log;
use super::quota::{Allotment, BLOCK_BYTES, Charge};

pub(super) use self::directories::{Directories, Directory, StandIn};

/// As wasmtime 48 names them; older guests' versions are found by these, too.
const TYPES: &str = "wasi:filesystem/types@0.2.12";
const PREOPENS: &str = "wasi:filesystem/preopens@0.2.12";

/// What a new name may add to its directory: two blocks where that becomes a tree, or a higher one. A
/// charge has one block on top, which is the entry's own.
const NAME_BYTES: u64 = 2 * BLOCK_BYTES;

type Reply<T> = wasmtime::Result<(Result<T, ErrorCode>,)>;
type File = Resource<Descriptor>;

/// Puts the functions in the place of wasmtime's.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut instance = linker.instance(PREOPENS)?;
    instance.func_wrap_async("get-directories", |mut store, (): ()| {
        Box::new(async move { get_directories(&mut store) })
    })?;
    let mut types = linker.instance(TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |store, parameters: (File, PathFlags, String, OpenFlags, DescriptorFlags)| {
            Box::new(open_at(store, parameters))
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.create-directory-at",
        |store, parameters: (File, String)| Box::new(create_directory_at(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.symlink-at",
        |store, parameters: (File, String, String)| Box::new(symlink_at(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.link-at",
        |store, parameters: (File, PathFlags, String, File, String)| {
            Box::new(link_at(store, parameters))
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.rename-at",
        |store, parameters: (File, String, File, String)| Box::new(rename_at(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.write",
        |store, parameters: (File, Vec<u8>, u64)| Box::new(write(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-size",
        |store, parameters: (File, u64)| Box::new(set_size(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.write-via-stream",
        |mut store, (file, offset): (File, u64)| {
            Box::new(async move {
                let allotment = store.data().directories.allotment_of(&file);
                let made = store.data_mut().filesystem().write_via_stream(file, offset);
                stream(&mut store, allotment, made)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.append-via-stream",
        |mut store, (file,): (File,)| {
            Box::new(async move {
                let allotment = store.data().directories.allotment_of(&file);
                let made = store.data_mut().filesystem().append_via_stream(file);
                stream(&mut store, allotment, made)
            })
        },
    )?;
    look::add(&mut types)?;
    linker.allow_shadowing(false);
    Ok(())
}

fn get_directories(
    store: &mut StoreContextMut<'_, Guest>,
) -> wasmtime::Result<(Vec<(File, String)>,)> {
    let guest = store.data_mut();
    let mut listed = Vec::new();
    for index in 0..guest.directories.count() {
        let (directory, name) = guest.directories.hand_out(index);
        let file = guest.filesystem().table.push(directory)?;
        guest.directories.remember(&file, index);
        listed.push((file, name));
    }
    Ok((listed,))
}

async fn open_at(
    mut store: StoreContextMut<'_, Guest>,
    (parent, path_flags, path, open_flags, flags): (
        File,
        PathFlags,
        String,
        OpenFlags,
        DescriptorFlags,
    ),
) -> Reply<File> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "open", &path).await? {
        return Ok((Err(refusal),));
    }
    let allotment = guest.directories.allotment_of(&parent);
    // Charged, too, when the file is there already: a measurement gives it back.
    let charge = match open_flags.contains(OpenFlags::CREATE) {
        true => guest.charge_entry(allotment.as_ref()).await,
        false => Ok(None),
    };
    let Ok(_charge) = charge else {
        return full();
    };
    let opened = guest
        .filesystem()
        .open_at(parent, path_flags, path, open_flags, flags)
        .await;
    if let Ok(file) = &opened {
        guest.directories.set(file, allotment);
    }
    reply(opened)
}

async fn create_directory_at(
    mut store: StoreContextMut<'_, Guest>,
    (parent, path): (File, String),
) -> Reply<()> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "create the directory", &path).await? {
        return Ok((Err(refusal),));
    }
    let allotment = guest.directories.allotment_of(&parent);
    let Ok(_charge) = guest.charge_entry(allotment.as_ref()).await else {
        return full();
    };
    reply(guest.filesystem().create_directory_at(parent, path).await)
}

async fn symlink_at(
    mut store: StoreContextMut<'_, Guest>,
    (parent, target, path): (File, String, String),
) -> Reply<()> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "create the link", &path).await? {
        return Ok((Err(refusal),));
    }
    let allotment = guest.directories.allotment_of(&parent);
    let Ok(_charge) = guest.charge_entry(allotment.as_ref()).await else {
        return full();
    };
    reply(guest.filesystem().symlink_at(parent, target, path).await)
}

async fn link_at(
    mut store: StoreContextMut<'_, Guest>,
    (parent, flags, path, new_parent, new_path): (File, PathFlags, String, File, String),
) -> Reply<()> {
    let guest = store.data_mut();
    for (directory, path) in [(&parent, &path), (&new_parent, &new_path)] {
        if let Err(refusal) = guest.enter(directory, "link", path).await? {
            return Ok((Err(refusal),));
        }
    }
    let allotment = guest.directories.allotment_of(&new_parent);
    if crosses(guest.directories.allotment_of(&parent), &allotment) {
        return Ok((Err(ErrorCode::CrossDevice),));
    }
    let Ok(_charge) = guest.charge_entry(allotment.as_ref()).await else {
        return full();
    };
    let linked = guest
        .filesystem()
        .link_at(parent, flags, path, new_parent, new_path)
        .await;
    reply(linked)
}

async fn rename_at(
    mut store: StoreContextMut<'_, Guest>,
    (parent, path, new_parent, new_path): (File, String, File, String),
) -> Reply<()> {
    let guest = store.data_mut();
    for (directory, path) in [(&parent, &path), (&new_parent, &new_path)] {
        if let Err(refusal) = guest.enter(directory, "rename", path).await? {
            return Ok((Err(refusal),));
        }
    }
    let allotment = guest.directories.allotment_of(&new_parent);
    if crosses(guest.directories.allotment_of(&parent), &allotment) {
        return Ok((Err(ErrorCode::CrossDevice),));
    }
    let Ok(_charge) = guest.charge_name(allotment.as_ref()).await else {
        return full();
    };
    let renamed = guest
        .filesystem()
        .rename_at(parent, path, new_parent, new_path)
        .await;
    reply(renamed)
}

async fn write(
    mut store: StoreContextMut<'_, Guest>,
    (file, bytes, offset): (File, Vec<u8>, u64),
) -> Reply<u64> {
    let guest = store.data_mut();
    let allotment = guest.directories.allotment_of(&file);
    let length = bytes.len() as u64;
    let Ok(_charge) = guest.charge(allotment.as_ref(), length).await else {
        return full();
    };
    reply(guest.filesystem().write(file, bytes, offset).await)
}

/// What a file grows by is charged although it has no blocks yet: some file systems take them at once.
async fn set_size(mut store: StoreContextMut<'_, Guest>, (file, size): (File, u64)) -> Reply<()> {
    let guest = store.data_mut();
    let Some(allotment) = guest.directories.allotment_of(&file) else {
        return reply(guest.filesystem().set_size(file, size).await);
    };
    let borrowed = Resource::new_borrow(file.rep());
    let present = match guest.filesystem().stat(borrowed).await {
        Ok(found) => found.size,
        Err(error) => return reply(Err(error)),
    };
    if size > present {
        let Ok(_charge) = guest.charge(Some(&allotment), size - present).await else {
            return full();
        };
        return reply(guest.filesystem().set_size(file, size).await);
    }
    reply(guest.filesystem().set_size(file, size).await)
}

/// What moves between directories of different quotas would come into one without a charge.
/// Programs copy where a file system says that it is another device.
fn crosses(old: Option<Allotment>, new: &Option<Allotment>) -> bool {
    match (&old, new) {
        (None, None) => false,
        (Some(old), Some(new)) => !old.is_same(new),
        (None, Some(_)) | (Some(_), None) => true,
    }
}

impl Guest {
    /// Charges a file, a directory or a link that is made, and its name.
    async fn charge_entry(
        &mut self,
        allotment: Option<&Allotment>,
    ) -> Result<Option<Charge>, Full> {
        self.charge(allotment, NAME_BYTES).await
    }

    /// Charges a name that is moved. A directory keeps the blocks of all that it once held, so a few
    /// files can swell any number of directories that they are led through.
    async fn charge_name(&mut self, allotment: Option<&Allotment>) -> Result<Option<Charge>, Full> {
        self.charge(allotment, NAME_BYTES - BLOCK_BYTES).await
    }

    /// Charges a write where there is a quota.
    async fn charge(
        &mut self,
        allotment: Option<&Allotment>,
        length: u64,
    ) -> Result<Option<Charge>, Full> {
        let Some(allotment) = allotment else {
            return Ok(None);
        };
        match allotment.charge(length).await {
            Some(charge) => Ok(Some(charge)),
            None => {
                note_full(&self.log, allotment);
                Err(Full)
            }
        }
    }
}

/// The directory has no room.
struct Full;

fn full<T>() -> Reply<T> {
    Ok((Err(ErrorCode::InsufficientSpace),))
}

fn reply<T>(outcome: FsResult<T>) -> Reply<T> {
    Ok((match outcome {
        Ok(value) => Ok(value),
        Err(error) => Err(error.downcast()?),
    },))
}

fn note_full(log: &Log, allotment: &Allotment) {
    log.warn(&format!(
        "a directory is full: it may take {} bytes; delete files there, or have the operator raise its \
         `quota_bytes`",
        allotment.max_bytes()
    ));
}
