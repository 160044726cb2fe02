//! Sessions of browsers: each stands for a token, and ends with it. They are in memory alone and end with the server.

use super::tokens::{Digest, TokenError, digest_of, random_secret};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sessions at once. Of too many, the one that was used least recently ends.
const SESSIONS_MAX: usize = 1024;

/// A session ends when it was not used for so long, in milliseconds: two hours.
const IDLE_MS: i64 = 2 * 60 * 60 * 1000;

/// A session ends so long after it began, in milliseconds: a day.
pub(crate) const LIFE_MS: i64 = 24 * 60 * 60 * 1000;

struct Session {
    token: Digest,
    began: i64,
    used: i64,
}

impl Session {
    fn is_over(&self, now: i64) -> bool {
        now >= self.began.saturating_add(LIFE_MS) || now >= self.used.saturating_add(IDLE_MS)
    }
}

/// The sessions, by the digests of their secrets.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<Digest, Session>>);

impl Sessions {
    /// Begins a session for a token; gives its secret.
    pub(crate) fn begin(&self, token: Digest, now: i64) -> Result<String, TokenError> {
        let secret = random_secret()?;
        let mut sessions = self.lock();
        sessions.retain(|_, session| !session.is_over(now));
        let least = sessions
            .iter()
            .min_by_key(|(_, session)| session.used)
            .map(|(key, _)| *key);
        if sessions.len() >= SESSIONS_MAX
            && let Some(least) = least
        {
            sessions.remove(&least);
        }
        let session = Session {
            token,
            began: now,
            used: now,
        };
        sessions.insert(digest_of(&secret), session);
        Ok(secret)
    }

    /// The token that a session stands for, and that it was used now.
    pub(crate) fn resume(&self, secret: &str, now: i64) -> Option<Digest> {
        let digest = digest_of(secret);
        let mut sessions = self.lock();
        let session = sessions.get_mut(&digest)?;
        if session.is_over(now) {
            sessions.remove(&digest);
            return None;
        }
        session.used = session.used.max(now);
        Some(session.token)
    }

    /// Ends a session.
    pub(crate) fn end(&self, secret: &str) {
        self.lock().remove(&digest_of(secret));
    }

    /// Ends all sessions of a token.
    pub(crate) fn end_of(&self, token: &Digest) {
        self.lock().retain(|_, session| session.token != *token);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Digest = [1; 32];

    #[test]
    fn a_session_ends_idle_old_or_told_to() {
        let sessions = Sessions::default();
        let idle = sessions.begin(TOKEN, 0).unwrap();
        assert_eq!(sessions.resume(&idle, IDLE_MS - 1), Some(TOKEN));
        assert_eq!(
            sessions.resume(&idle, 2 * IDLE_MS - 2),
            Some(TOKEN),
            "using it keeps it"
        );
        assert_eq!(sessions.resume(&idle, 3 * IDLE_MS), None);
        let old = sessions.begin(TOKEN, 0).unwrap();
        for used in (0..LIFE_MS).step_by(IDLE_MS as usize / 2) {
            assert_eq!(sessions.resume(&old, used), Some(TOKEN));
        }
        assert_eq!(sessions.resume(&old, LIFE_MS), None);
        assert_eq!(sessions.resume(&old, 0), None, "what is over stays over");
        let told = sessions.begin(TOKEN, 0).unwrap();
        sessions.end(&told);
        assert_eq!(sessions.resume(&told, 0), None);
        let (mine, other) = (sessions.begin(TOKEN, 0).unwrap(), sessions.begin([2; 32], 0).unwrap());
        sessions.end_of(&TOKEN);
        assert_eq!(
            (sessions.resume(&mine, 0), sessions.resume(&other, 0)),
            (None, Some([2; 32]))
        );
    }

    #[test]
    fn there_are_never_too_many() {
        let sessions = Sessions::default();
        let first = sessions.begin(TOKEN, 0).unwrap();
        let kept = sessions.begin(TOKEN, 0).unwrap();
        sessions.resume(&kept, 2);
        for _ in 0..SESSIONS_MAX - 1 {
            sessions.begin(TOKEN, 1).unwrap();
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert_eq!(
            (sessions.resume(&first, 2), sessions.resume(&kept, 2)),
            (None, Some(TOKEN))
        );
    }
}
