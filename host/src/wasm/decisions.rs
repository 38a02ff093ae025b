//! What people allowed for good: one small file a decision, by tenant and plugin, in a folder that
//! whoever runs the host can list and delete from while it runs. A decision lets nothing through by
//! itself: the operator's rule is asked first, every time (I5).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::task::{Digest, TenantId};

/// Decisions kept of one tenant for one plugin; further ones count once.
const DECISIONS_MAX: usize = 1_000;

/// A larger file is not ours.
const FILE_MAX_BYTES: u64 = 64 << 10;

const ENDING: &str = "json";

/// What somebody allowed a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    /// What it may use: a place for requests, or a directory with its place on the host.
    pub target: String,
    /// The tool that ran when it was asked.
    pub tool: String,
    /// Seconds since 1970.
    pub decided_at: u64,
}

/// A decision and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    pub tenant: TenantId,
    pub plugin: String,
    pub decision: Decision,
}

/// The folder: `<tenant>/<plugin>/<SHA-256 of the target>.json`.
#[derive(Debug)]
pub struct Decisions {
    folder: PathBuf,
    temporaries: AtomicU64,
}

impl Decisions {
    /// The folder is made with the first decision.
    pub fn new(folder: PathBuf) -> Decisions {
        Decisions {
            folder,
            temporaries: AtomicU64::new(0),
        }
    }

    /// Whether the tenant allowed the plugin this very target for good. Blocks.
    pub fn is_allowed(&self, tenant: &TenantId, plugin: &str, target: &str) -> bool {
        let path = self.place(tenant, plugin).join(file_name(target));
        // A file that can't be read allows nothing.
        read(&path).is_ok_and(|decision| decision.target == target)
    }

    /// Keeps a decision, durably. Blocks.
    pub fn keep(&self, tenant: &TenantId, plugin: &str, decision: &Decision) -> io::Result<()> {
        let place = self.place(tenant, plugin);
        fs::create_dir_all(&place)?;
        if count(&place)? >= DECISIONS_MAX {
            return Err(io::Error::other(format!(
                "{DECISIONS_MAX} decisions are kept for this tenant and plugin, which is the limit; \
                 take some back with `longshore plugin grants --revoke`"
            )));
        }
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = place.join(format!(".{}-{number}", std::process::id()));
        let written = write(
            &temporary,
            &place.join(file_name(&decision.target)),
            decision,
        );
        if written.is_err() {
            // What can't be removed either counts for nothing.
            let _ = fs::remove_file(&temporary);
        }
        written?;
        // The folders may be new, too.
        for folder in place.ancestors().take(4) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    /// All decisions, by tenant, plugin and target.
    pub fn list(&self) -> io::Result<Vec<Decided>> {
        let mut decided = Vec::new();
        for (tenant, of_tenant) in folders(&self.folder)? {
            let Ok(tenant) = TenantId::parse(&tenant) else {
                continue;
            };
            for (plugin, of_plugin) in folders(&of_tenant)? {
                for entry in fs::read_dir(of_plugin)? {
                    let path = entry?.path();
                    if is_decision(&path) {
                        decided.extend(read(&path).ok().map(|decision| Decided {
                            tenant: tenant.clone(),
                            plugin: plugin.clone(),
                            decision,
                        }));
                    }
                }
            }
        }
        decided.sort_by(|a, b| {
            let key = |decided: &Decided| {
                let target = decided.decision.target.clone();
                (decided.tenant.clone(), decided.plugin.clone(), target)
            };
            key(a).cmp(&key(b))
        });
        Ok(decided)
    }

    /// Takes a decision back: the next request is asked again.
    pub fn revoke(&self, decided: &Decided) -> io::Result<()> {
        let place = self.place(&decided.tenant, &decided.plugin);
        fs::remove_file(place.join(file_name(&decided.decision.target)))?;
        File::open(place)?.sync_all()
    }

    /// Neither name can hold a separator or a dot.
    fn place(&self, tenant: &TenantId, plugin: &str) -> PathBuf {
        self.folder.join(tenant.as_str()).join(plugin)
    }
}

fn file_name(target: &str) -> String {
    let digest = Digest(Sha256::digest(target.as_bytes()).into());
    format!("{digest}.{ENDING}")
}

fn write(temporary: &Path, path: &Path, decision: &Decision) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(serde_json::to_string(decision)?.as_bytes())?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

/// Decisions in a plugin's folder.
fn count(place: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(place)? {
        count += usize::from(is_decision(&entry?.path()));
    }
    Ok(count)
}

fn is_decision(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

fn read(path: &Path) -> io::Result<Decision> {
    let mut text = String::new();
    File::open(path)?
        .take(FILE_MAX_BYTES)
        .read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// The folders in a folder, with their names; none when it is not there.
fn folders(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_counts_for_its_tenant_plugin_and_target_until_it_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let decisions = Decisions::new(folder.path().join("grants"));
        assert_eq!(decisions.list().unwrap(), []);
        let acme = TenantId::parse("acme").unwrap();
        let decision = Decision {
            target: "https://a.example:443/v1/".to_owned(),
            tool: "export".to_owned(),
            decided_at: 7,
        };
        decisions.keep(&acme, "report", &decision).unwrap();
        let is_allowed = |tenant: &TenantId, plugin: &str, target: &str| {
            decisions.is_allowed(tenant, plugin, target)
        };
        assert!(is_allowed(&acme, "report", &decision.target));
        assert!(!is_allowed(&acme, "report", "https://a.example:443/v2/"));
        assert!(!is_allowed(&acme, "other", &decision.target));
        assert!(!is_allowed(&TenantId::local(), "report", &decision.target));

        let listed = decisions.list().unwrap();
        assert_eq!(listed.len(), 1);
        decisions.revoke(&listed[0]).unwrap();
        assert!(!is_allowed(&acme, "report", &decision.target));
    }

    #[test]
    fn a_file_that_was_put_under_another_targets_name_allows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let decisions = Decisions::new(folder.path().to_owned());
        let place = decisions.place(&TenantId::local(), "report");
        fs::create_dir_all(&place).unwrap();
        let text = r#"{"target":"https://a.example:443","tool":"t","decidedAt":0}"#;
        fs::write(place.join(file_name("https://b.example:443")), text).unwrap();
        assert!(!decisions.is_allowed(&TenantId::local(), "report", "https://b.example:443"));
    }
    #[test]
    fn what_a_failed_write_left_is_removed_and_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let decisions = Decisions::new(folder.path().to_owned());
        let decision = Decision {
            target: "https://a.example:443".to_owned(),
            tool: "t".to_owned(),
            decided_at: 0,
        };
        let local = TenantId::local();
        let place = decisions.place(&local, "report");
        // In the way of the rename.
        let taken = place.join(file_name(&decision.target));
        fs::create_dir_all(&taken).unwrap();
        assert!(decisions.keep(&local, "report", &decision).is_err());
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);

        fs::remove_dir(taken).unwrap();
        for number in 0..DECISIONS_MAX {
            fs::write(place.join(format!(".1-{number}")), "").unwrap();
        }
        decisions.keep(&local, "report", &decision).unwrap();
        assert!(decisions.is_allowed(&local, "report", &decision.target));
    }
}
