//! The account that list, find and search give of their traversal: what was cut short, what could not be read.
//! It must never walk.

use crate::errno;
use goblin_protocol::limits::FRAME_MAX;
use rustix::io::Errno;
use serde::Serialize;
use std::borrow::Cow;

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Deepest directory that is entered; the root has depth 0.
    pub(crate) depth: u64,
    /// Entries that are visited.
    pub(crate) entries: u64,
}

/// What a traversal says of its own completeness, in the documented order.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Traversal {
    truncated: bool,
    depth_truncated: bool,
    entry_budget_exhausted: bool,
    incomplete: bool,
    warnings: Vec<String>,
    /// Bytes of text in the result so far.
    #[serde(skip)]
    text: usize,
}

impl Traversal {
    /// `relative` as text, with a warning when it is not valid UTF-8.
    pub(crate) fn show(&mut self, relative: &[u8]) -> String {
        let shown = String::from_utf8_lossy(relative);
        if let Cow::Owned(lossy) = &shown {
            self.push(format!("undecodable_name:{lossy}"));
        }
        self.count(&shown);
        shown.into_owned()
    }

    /// Notes what could not be used of an entry.
    pub(crate) fn warn(&mut self, what: &str, relative: &[u8], error: Option<Errno>) {
        let relative = String::from_utf8_lossy(relative);
        self.push(match error {
            Some(error) => format!("{what}:{relative}:{}", errno::name(error)),
            None => format!("{what}:{relative}"),
        });
    }

    /// Notes that a directory was not entered for its depth.
    pub(crate) fn depth_reached(&mut self) {
        self.depth_truncated = true;
    }

    /// Notes that there was an entry beyond the budget.
    pub(crate) fn budget_exhausted(&mut self) {
        self.entry_budget_exhausted = true;
    }

    /// Counts text that goes into the result.
    pub(crate) fn count(&mut self, text: &str) {
        self.text = self.text.saturating_add(text.len());
    }

    /// Whether the result is longer than any frame. It will be refused whole, so that more of it would only cost memory:
    /// a deep tree of long names has paths far longer than the tree is large.
    pub(crate) fn is_overlong(&self) -> bool {
        self.text > FRAME_MAX
    }

    /// Ends the account. `results_left_out` is the result limit, when there was more than it admits.
    pub(crate) fn finish(mut self, bounds: &Bounds, results_left_out: Option<u64>) -> Self {
        let mut cut = Vec::new();
        if self.depth_truncated {
            cut.push(format!(
                "The depth limit of {} was reached; deeper folders were not entered.",
                bounds.depth
            ));
        }
        if self.entry_budget_exhausted {
            cut.push(format!(
                "The limit of {} entries was reached; the rest was not traversed.",
                bounds.entries
            ));
        }
        if let Some(limit) = results_left_out {
            cut.push(format!("The limit of {limit} results was reached; more were left out."));
        }
        if self.is_overlong() {
            cut.push("The result is too long to be delivered; the rest was not traversed.".to_owned());
        }
        self.truncated = !cut.is_empty();
        self.warnings.extend(cut);
        self.incomplete = !self.warnings.is_empty();
        self
    }

    fn push(&mut self, warning: String) {
        self.count(&warning);
        self.warnings.push(warning);
    }
}
