//! A plugin that is taken out: its tasks go on, or are cancelled.

use serde_json::{Value, json};

use super::{Admin, AdminError, Serving, Taken};

/// What became of a plugin that was removed.
pub struct Removed {
    pub name: String,
    pub taken: Taken,
    cancels: bool,
}

impl Admin {
    /// With `cancels`, its tasks are cancelled.
    pub async fn remove(&self, name: &str, cancels: bool) -> Result<Removed, AdminError> {
        let _changing = self.changing.lock().await;
        let before = self.running.find_on(&self.plugins_dir).await?;
        let (removed, directory) = (name.to_owned(), self.plugins_dir.clone());
        self.shelf(move |shelf| match shelf.find(&removed)? {
            Some(place) => shelf.remove(&place, &removed, cancels),
            None => Err(AdminError::NothingToRemove {
                name: removed,
                directory,
            }),
        })
        .await?;
        let is_over = |serving: &Serving| !serving.plugins.contains_key(name);
        Ok(Removed {
            name: name.to_owned(),
            taken: self.running.wait(before.as_ref(), name, is_over).await,
            cancels,
        })
    }
}

impl Removed {
    pub fn is_done(&self) -> bool {
        matches!(self.taken, Taken::Over { .. } | Taken::AtNextStart)
    }

    pub fn words(&self) -> String {
        let name = &self.name;
        let tasks = match self.cancels {
            true => "its tasks are told to stop",
            false => "its tasks go on",
        };
        match &self.taken {
            Taken::Over { url } => format!("{name} is no longer served at {url}; {tasks}"),
            Taken::AtNextStart => format!("{name} is removed; {tasks} at the host's next start"),
            Taken::NotYet { url } => format!(
                "{name} is removed, but the host at {url} has not given it up yet; its log says why"
            ),
            Taken::Refused { reason } => {
                format!("{name} is removed, but the host still looks for it: {reason}")
            }
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "state": match self.taken {
                Taken::Over { .. } => "removed",
                Taken::AtNextStart => "stored",
                Taken::NotYet { .. } => "waiting",
                Taken::Refused { .. } => "refused",
            },
            "tasksCancelled": self.cancels,
            "message": self.words(),
        })
    }
}
