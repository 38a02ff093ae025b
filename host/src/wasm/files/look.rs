//! The functions of `wasi:filesystem` that look into a directory or take something out of it, each
//! with the way through `gate` before it does what it always did.

use wasmtime::StoreContextMut;
use wasmtime::component::{LinkerInstance, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorStat, DirectoryEntryStream, HostDescriptor, MetadataHashValue, NewTimestamp,
    PathFlags,
};

use super::{Reply, reply};
use crate::wasm::guest::Guest;

type File = Resource<Descriptor>;
type Host<'a> = StoreContextMut<'a, Guest>;

/// Puts the functions in the place of wasmtime's, which `types` may shadow.
pub(super) fn add(types: &mut LinkerInstance<'_, Guest>) -> wasmtime::Result<()> {
    types.func_wrap_async(
        "[method]descriptor.read-directory",
        |store, parameters: (File,)| Box::new(read_directory(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.stat-at",
        |store, parameters: (File, PathFlags, String)| Box::new(stat_at(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.metadata-hash-at",
        |store, parameters: (File, PathFlags, String)| {
            Box::new(metadata_hash_at(store, parameters))
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-times",
        |store, parameters: (File, NewTimestamp, NewTimestamp)| {
            Box::new(set_times(store, parameters))
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-times-at",
        |store, parameters: (File, PathFlags, String, NewTimestamp, NewTimestamp)| {
            Box::new(set_times_at(store, parameters))
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.readlink-at",
        |store, parameters: (File, String)| Box::new(readlink_at(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.unlink-file-at",
        |store, parameters: (File, String)| Box::new(unlink_file_at(store, parameters)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.remove-directory-at",
        |store, parameters: (File, String)| Box::new(remove_directory_at(store, parameters)),
    )
}

async fn read_directory(
    mut store: Host<'_>,
    (file,): (File,),
) -> Reply<Resource<DirectoryEntryStream>> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&file, "list", ".").await? {
        return Ok((Err(refusal),));
    }
    reply(guest.filesystem().read_directory(file).await)
}

async fn stat_at(
    mut store: Host<'_>,
    (parent, flags, path): (File, PathFlags, String),
) -> Reply<DescriptorStat> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "look at", &path).await? {
        return Ok((Err(refusal),));
    }
    reply(guest.filesystem().stat_at(parent, flags, path).await)
}

async fn metadata_hash_at(
    mut store: Host<'_>,
    (parent, flags, path): (File, PathFlags, String),
) -> Reply<MetadataHashValue> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "look at", &path).await? {
        return Ok((Err(refusal),));
    }
    let mut files = guest.filesystem();
    reply(files.metadata_hash_at(parent, flags, path).await)
}

/// Of the directory itself; all stand-ins are one, and must not carry a word from guest to guest.
async fn set_times(
    mut store: Host<'_>,
    (file, accessed, modified): (File, NewTimestamp, NewTimestamp),
) -> Reply<()> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&file, "set the times of", ".").await? {
        return Ok((Err(refusal),));
    }
    let mut files = guest.filesystem();
    reply(files.set_times(file, accessed, modified).await)
}

async fn set_times_at(
    mut store: Host<'_>,
    (parent, flags, path, accessed, modified): (
        File,
        PathFlags,
        String,
        NewTimestamp,
        NewTimestamp,
    ),
) -> Reply<()> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "set the times of", &path).await? {
        return Ok((Err(refusal),));
    }
    let mut files = guest.filesystem();
    let set = files.set_times_at(parent, flags, path, accessed, modified);
    reply(set.await)
}

async fn readlink_at(mut store: Host<'_>, (parent, path): (File, String)) -> Reply<String> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "look at", &path).await? {
        return Ok((Err(refusal),));
    }
    reply(guest.filesystem().readlink_at(parent, path).await)
}

async fn unlink_file_at(mut store: Host<'_>, (parent, path): (File, String)) -> Reply<()> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "delete", &path).await? {
        return Ok((Err(refusal),));
    }
    reply(guest.filesystem().unlink_file_at(parent, path).await)
}

async fn remove_directory_at(mut store: Host<'_>, (parent, path): (File, String)) -> Reply<()> {
    let guest = store.data_mut();
    if let Err(refusal) = guest.enter(&parent, "delete the directory", &path).await? {
        return Ok((Err(refusal),));
    }
    reply(guest.filesystem().remove_directory_at(parent, path).await)
}
