//! File systems of a test's own. Mounting needs root; whoever can't is told why.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// ext4's own ioctl, which stops it as a power cut would: nothing more reaches the device, also
/// not what is in its log (`EXT4_IOC_SHUTDOWN`, `EXT4_GOING_FLAGS_NOLOGFLUSH`).
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
const NO_LOG_FLUSH: u32 = 2;

/// A mounted file system; unmounted when dropped.
pub struct Mounted {
    point: PathBuf,
    /// The image of a loop mount.
    image: Option<PathBuf>,
}

impl Mounted {
    /// A file system in memory of so many MiB at `point`.
    pub fn tmpfs(point: &Path, mib: u64) -> Result<Mounted, String> {
        std::fs::create_dir_all(point).unwrap();
        let size = format!("size={mib}m");
        let point = point.to_owned();
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&point))?;
        Ok(Mounted { point, image: None })
    }

    /// An ext4 of so many MiB in the file `image`, mounted at `point` through a loop device.
    pub fn ext4(image: &Path, point: &Path, mib: u64) -> Result<Mounted, String> {
        std::fs::create_dir_all(point).unwrap();
        File::create(image).unwrap().set_len(mib << 20).unwrap();
        run(Command::new("mkfs.ext4").arg("-q").arg(image))?;
        let mounted = Mounted {
            point: point.to_owned(),
            image: Some(image.to_owned()),
        };
        mounted.mount()?;
        Ok(mounted)
    }

    /// Cuts the power: what is not on the device by now never gets there.
    pub fn cut_power(&self) -> Result<(), String> {
        let root = File::open(&self.point).map_err(|error| error.to_string())?;
        // SAFETY: the operation reads one u32 and has no other effect on memory.
        unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) }
            .map_err(|error| format!("EXT4_IOC_SHUTDOWN: {error}"))
    }

    /// Mounts the image anew, as the next boot would.
    pub fn boot(&self) -> Result<(), String> {
        run(Command::new("umount").arg(&self.point))?;
        self.mount()
    }

    fn mount(&self) -> Result<(), String> {
        let image = self.image.as_ref().expect("only an image is mounted again");
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(image)
            .arg(&self.point))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a host that is just being killed may still hold files.
        let unmounted = run(Command::new("umount").arg("-l").arg(&self.point));
        if let Err(why) = unmounted {
            eprintln!("{why}");
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?}: {}", words.trim()))
        }
    }
}
