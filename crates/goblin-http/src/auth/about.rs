//! What the audit log says a request was about: ids out of its path, and what its handler adds. It must never be given
//! a secret; what looks like a token is left out all the same.

use super::request::decoded;
use super::tokens::holds_token;
use crate::audit::{AuditLog, Record};
use std::future::Future;
use std::sync::{Arc, OnceLock};

/// Longest subject, in characters.
const SUBJECT_MAX: usize = 600;

tokio::task_local! {
    static ABOUT: Arc<About>;
}

/// What a handler said of its request.
#[derive(Default)]
pub(crate) struct About {
    subject: OnceLock<String>,
    actor: OnceLock<String>,
}

impl About {
    /// Runs a handler that may say something.
    pub(super) async fn listening<F: Future>(self: Arc<Self>, handler: F) -> F::Output {
        ABOUT.scope(self, handler).await
    }
}

/// Says which thing a request is about, beyond what its path says: an id.
pub(crate) fn about(id: &str) {
    // Outside of a request there is nobody to tell.
    let _ = ABOUT.try_with(|about| about.subject.set(id.to_owned()));
}

/// Says who acted, where only the handler finds out.
pub(crate) fn acted_by(token_id: &str) {
    let _ = ABOUT.try_with(|about| about.actor.set(format!("token:{token_id}")));
}

/// The ids in a path.
pub(super) fn path_subject(template: Option<&str>, path: &str) -> Option<String> {
    let segments = template?.split('/').zip(path.split('/'));
    let ids: Vec<_> = segments
        .filter(|(name, _)| name.starts_with('{'))
        .map(|(_, id)| decoded(id))
        .collect();
    (!ids.is_empty()).then(|| clean(&ids.join("/")))
}

fn clean(text: &str) -> String {
    if holds_token(text) {
        return "(token)".to_owned();
    }
    text.chars().take(SUBJECT_MAX).collect()
}

/// A record that waits for its result. A caller that goes away before the answer leaves one, too.
pub(super) struct Pending {
    pub(super) audit: AuditLog,
    pub(super) record: Option<Record>,
    pub(super) about: Arc<About>,
}

impl Pending {
    pub(super) fn finish(mut self, result: String) {
        self.write(result);
    }

    pub(super) fn forget(mut self) {
        self.record = None;
    }

    fn write(&mut self, result: String) {
        let Some(mut record) = self.record.take() else {
            return;
        };
        if let Some(said) = self.about.subject.get() {
            let said = clean(said);
            record.subject = Some(match record.subject {
                Some(subject) => format!("{subject}/{said}"),
                None => said,
            });
        }
        if let Some(actor) = self.about.actor.get() {
            record.actor.clone_from(actor);
        }
        self.audit.record(Record { result, ..record });
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.write("abandoned".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_its_ids_and_no_token() {
        let subject = |path: &str| path_subject(Some("/a/{x}/b/{y}"), path);
        assert_eq!(subject("/a/g%2D1/b/op:1").as_deref(), Some("g-1/op:1"));
        assert_eq!(path_subject(Some("/a/b"), "/a/b"), None);
        assert_eq!(path_subject(None, "/a/b"), None);
        let token = format!("/a/ng_{}/b/c", "x".repeat(43));
        assert_eq!(subject(&token).as_deref(), Some("(token)"));
        let long = format!("/a/{}/b/c", "x".repeat(10_000));
        assert_eq!(subject(&long).map(|subject| subject.len()), Some(SUBJECT_MAX));
    }
}
