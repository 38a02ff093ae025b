//! Writing to a file through a stream, in a directory with a quota. What a full directory is to the
//! guest is said by the parent.

use std::io;

use bytes::Bytes;
use rustix::io::Errno;
use wasmtime::StoreContextMut;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::WasiFilesystemView;
use wasmtime_wasi::p2::{
    DynOutputStream, FsResult, OutputStream, Pollable, StreamError, StreamResult,
};

use super::{Reply, note_full, reply};
use crate::wasm::guest::Guest;
use crate::wasm::log::Log;
use crate::wasm::quota::{Allotment, Charge};

/// Puts a stream that wasmtime made behind its directory's quota, if that has one.
pub(super) fn stream(
    store: &mut StoreContextMut<'_, Guest>,
    allotment: Option<Allotment>,
    made: FsResult<Resource<DynOutputStream>>,
) -> Reply<Resource<DynOutputStream>> {
    let (Some(allotment), Ok(made)) = (allotment, &made) else {
        return reply(made);
    };
    let log = store.data().log.clone();
    let table: &mut ResourceTable = store.data_mut().filesystem().table;
    let inner = table.delete(Resource::<DynOutputStream>::new_own(made.rep()))?;
    let bounded: DynOutputStream = Box::new(Bounded {
        inner,
        allotment,
        charge: None,
        room: Room::Unasked,
        log,
    });
    Ok((Ok(table.push(bounded)?),))
}

/// A file's output stream with its directory's quota.
struct Bounded {
    inner: DynOutputStream,
    allotment: Allotment,
    /// For the write that is under way.
    charge: Option<Charge>,
    room: Room,
    log: Log,
}

/// How sure it is that there is no room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Unasked,
    /// To be measured when the guest waits, which it need not do before it asks again.
    Wanted,
    Measured,
}

impl Bounded {
    fn refuse(&self) -> StreamError {
        note_full(&self.log, &self.allotment);
        let error = io::Error::from(Errno::NOSPC);
        StreamError::LastOperationFailed(error.into())
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Bounded {
    fn check_write(&mut self) -> StreamResult<usize> {
        let permit = self.inner.check_write()?;
        if permit == 0 {
            return Ok(0);
        }
        // The write before is done.
        self.charge = None;
        let room = usize::try_from(self.allotment.room_bytes()).unwrap_or(usize::MAX);
        if room > 0 {
            self.room = Room::Unasked;
            return Ok(permit.min(room));
        }
        match self.room {
            Room::Unasked | Room::Wanted => {
                self.room = Room::Wanted;
                Ok(0)
            }
            Room::Measured => {
                self.room = Room::Unasked;
                Err(self.refuse())
            }
        }
    }

    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        // Others may have used the room since it was checked.
        let Some(charge) = self.allotment.try_charge(bytes.len() as u64) else {
            return Err(self.refuse());
        };
        self.charge = Some(charge);
        self.inner.write(bytes)
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        let Some(_charge) = self.allotment.charge(bytes.len() as u64).await else {
            return Err(self.refuse());
        };
        self.inner.blocking_write_and_flush(bytes).await
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Bounded {
    async fn ready(&mut self) {
        self.inner.ready().await;
        self.charge = None;
        if self.room == Room::Wanted {
            self.allotment.measure().await;
            self.room = Room::Measured;
        }
    }
}

#[cfg(test)]
mod tests {
    use wasmtime_wasi::p2::pipe::MemoryOutputPipe;

    use super::*;
    use crate::wasm::quota::Accounts;

    /// A stream into a directory with this quota.
    fn stream(root: &std::path::Path, quota_bytes: u64) -> Bounded {
        Bounded {
            inner: Box::new(MemoryOutputPipe::new(1 << 20)),
            allotment: Accounts::default().open(root, quota_bytes).unwrap(),
            charge: None,
            room: Room::Unasked,
            log: Log::new(None, 0),
        }
    }

    #[tokio::test]
    async fn a_guest_that_does_not_wait_is_not_told_that_a_directory_is_full() {
        let root = tempfile::tempdir().unwrap();
        let mut roomy = stream(root.path(), 1 << 20);
        for _ in 0..3 {
            assert_eq!(roomy.check_write().unwrap(), 0, "nothing is known yet");
        }
        roomy.ready().await;
        assert!(roomy.check_write().unwrap() > 0);

        let mut full = stream(root.path(), 1);
        for _ in 0..3 {
            assert_eq!(full.check_write().unwrap(), 0);
        }
        full.ready().await;
        assert!(full.check_write().is_err());
    }
}
