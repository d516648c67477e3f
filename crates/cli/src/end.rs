//! The end of a transfer, well or not: one JSON object, and variables for a hook.

use serde::Serialize;

#[cfg(feature = "research")]
use crate::summary::print_json;
use crate::summary::{ErrorRecord, Summary};

/// Most characters of a message in an environment variable.
const MAX_VARIABLE: usize = 4096;

/// The end of a transfer: `--json`'s object.
#[derive(Debug, Serialize)]
pub(crate) struct End {
    /// `done` or `error`.
    event: &'static str,
    /// Its number since the program started; `None` if no transfer began.
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer: Option<u64>,
    #[serde(flatten)]
    result: Ending,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Ending {
    Done(Box<Summary>),
    Failed(Failed),
}

impl End {
    pub(crate) fn done(transfer: Option<u64>, summary: Summary) -> Self {
        Self {
            event: "done",
            transfer,
            result: Ending::Done(Box::new(summary)),
        }
    }

    pub(crate) fn failed(transfer: Option<u64>, error: &anyhow::Error) -> Self {
        Self {
            event: "error",
            transfer,
            result: Ending::Failed(Failed {
                error: ErrorRecord::of(error),
            }),
        }
    }

    /// The most useful of it, as environment variables. Names are the peer's.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("TRANSFER_EVENT", self.event.to_owned())];
        let mut set = |name, value: String| variables.push((name, value));
        if let Some(transfer) = self.transfer {
            set("TRANSFER_NUMBER", transfer.to_string());
        }
        let error = match &self.result {
            Ending::Done(summary) => {
                set("TRANSFER_DIRECTION", summary.direction.to_owned());
                set("TRANSFER_BYTES", summary.bytes.to_string());
                set("TRANSFER_SECONDS", summary.seconds.to_string());
                set("TRANSFER_FILES", summary.new_files.to_string());
                if let [file] = summary.files.as_slice() {
                    let name = file.saved_as.as_ref().unwrap_or(&file.name);
                    set("TRANSFER_FILE", name.clone());
                }
                summary.error.as_ref()
            }
            Ending::Failed(failed) => Some(&failed.error),
        };
        set(
            "TRANSFER_STATUS",
            error.map_or(0, |error| error.status).to_string(),
        );
        if let Some(error) = error {
            set("TRANSFER_ERROR_CODE", error.code.to_owned());
            // The system takes no variables of any length.
            let message = error.message.chars().take(MAX_VARIABLE).collect();
            set("TRANSFER_ERROR", message);
        }
        variables
    }

    /// The bytes of its text, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match &self.result {
            Ending::Done(summary) => {
                let files = summary.files.iter();
                let files: usize = files.map(|file| 150 + file.name.len()).sum();
                let planned = summary.planned.iter();
                let planned: usize = planned.map(|file| 50 + file.name.len()).sum();
                let names = summary.deleted.names.iter();
                let names = names.chain(&summary.skipped.examples);
                let names = names.chain(&summary.altered.examples);
                let names: usize = names.map(|name| 3 + name.len()).sum();
                let error = summary.error.as_ref().map_or(0, |e| e.message.len());
                files + planned + names + error + 300 * summary.paths.len() + 500
            }
            Ending::Failed(failed) => failed.error.message.len() + 100,
        }
    }
}

/// What a failure's object has.
#[derive(Debug, Serialize)]
struct Failed {
    error: ErrorRecord,
}

/// Reports a failure on standard output.
#[cfg(feature = "research")]
pub(crate) fn print_failure(error: &anyhow::Error) -> anyhow::Result<()> {
    print_json(&Failed {
        error: ErrorRecord::of(error),
    })
}

#[cfg(test)]
mod tests {
    use manyway::files::{Planned, PlannedKind};

    use super::*;
    use crate::summary::tests::summary;

    /// What waits to be written is bounded by this.
    #[test]
    fn the_bytes_of_an_end_count_all_names() {
        let names = vec!["x".repeat(1000); 100];
        let mut all = summary("sent");
        all.deleted.names = names.clone();
        all.skipped.examples = names.clone();
        all.altered.examples = names.clone();
        all.planned = names.into_iter().map(planned).collect();
        let end = End::done(None, all);
        let text = serde_json::to_vec(&end).unwrap().len();
        assert!(end.bytes() > 400_000 && end.bytes().abs_diff(text) < text / 10);
    }

    fn planned(name: String) -> Planned {
        Planned {
            name,
            kind: PlannedKind::File,
            bytes: 1,
            in_part: false,
        }
    }
}
