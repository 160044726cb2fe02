//! Bounds on what strangers cost: failures of authentication by peer, and connections by peer. It must never know what
//! a failure was about.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Failures of a peer within [`WINDOW_MS`] that are answered as what they are.
const FAILURES_MAX: u32 = 10;

const WINDOW_MS: i64 = 60_000;

/// Peers remembered. Of too many, the one that failed first is forgotten.
const PEERS_MAX: usize = 4096;

/// Who a peer is: an IPv4 address, or the network of an IPv6 one, since a host has as many addresses as it likes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let network = address.to_bits() >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            other => other,
        })
    }
}

struct Window {
    began: i64,
    failures: u32,
}

/// What a failure leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The peer failed too often, and how long it still counts.
    pub(crate) limited: Option<Duration>,
    /// Worth a line in a log. Of a peer that goes on failing, only the first few are.
    pub(crate) noted: bool,
}

/// Failures of authentication by peer.
#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<Peer, Window>>);

impl Failures {
    /// Counts a failure at `now`, in epoch milliseconds.
    pub(crate) fn count(&self, peer: Peer, now: i64) -> Verdict {
        let mut peers = lock(&self.0);
        let current = |window: &Window| (window.began..window.began + WINDOW_MS).contains(&now);
        if peers.len() >= PEERS_MAX && !peers.contains_key(&peer) {
            peers.retain(|_, window| current(window));
            let first = peers
                .iter()
                .min_by_key(|(_, window)| window.began)
                .map(|(peer, _)| *peer);
            if peers.len() >= PEERS_MAX
                && let Some(first) = first
            {
                peers.remove(&first);
            }
        }
        let window = peers.entry(peer).or_insert(Window {
            began: now,
            failures: 0,
        });
        if !current(window) {
            *window = Window {
                began: now,
                failures: 0,
            };
        }
        window.failures = window.failures.saturating_add(1);
        let left = Duration::from_millis((window.began + WINDOW_MS - now).unsigned_abs());
        Verdict {
            limited: (window.failures > FAILURES_MAX).then_some(left),
            noted: window.failures <= FAILURES_MAX + 1,
        }
    }
}

/// Connections by peer.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The place of one connection, free again when it is dropped.
pub(crate) struct Place {
    places: Places,
    peer: IpAddr,
}

impl Places {
    /// A place for one more connection of a peer, unless it has `most` already.
    pub(crate) fn take(&self, peer: IpAddr, most: usize) -> Option<Place> {
        let mut taken = lock(&self.0);
        let count = taken.entry(peer).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place {
            places: self.clone(),
            peer,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.0);
        if let Some(count) = taken.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn the_eleventh_failure_of_a_minute_is_too_many() {
        let failures = Failures::default();
        let honest = Verdict {
            limited: None,
            noted: true,
        };
        for second in 0..10 {
            assert_eq!(failures.count(peer("10.0.0.1"), second * 1000), honest);
        }
        let eleventh = failures.count(peer("10.0.0.1"), 10_000);
        assert_eq!(
            (eleventh.limited, eleventh.noted),
            (Some(Duration::from_secs(50)), true)
        );
        let twelfth = failures.count(peer("10.0.0.1"), 59_999);
        assert_eq!(
            (twelfth.limited, twelfth.noted),
            (Some(Duration::from_millis(1)), false)
        );
        assert_eq!(failures.count(peer("10.0.0.2"), 59_999), honest);
        assert_eq!(failures.count(peer("10.0.0.1"), 60_000), honest);
        assert_eq!(
            failures.count(peer("10.0.0.1"), -5),
            honest,
            "a clock that was put back"
        );
    }

    #[test]
    fn a_host_is_one_peer_whatever_address_it_takes() {
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("::1"), peer("::2"));
    }

    #[test]
    fn only_so_many_peers_are_remembered() {
        let failures = Failures::default();
        for number in 0..2 * PEERS_MAX as u32 {
            failures.count(Peer(IpAddr::V4(number.into())), i64::from(number / 1000));
        }
        assert_eq!(lock(&failures.0).len(), PEERS_MAX);
        failures.count(peer("10.0.0.1"), 10 * WINDOW_MS);
        assert_eq!(lock(&failures.0).len(), 1, "what is over is forgotten");
    }

    #[test]
    fn a_peer_has_so_many_places_and_gets_them_back() {
        let places = Places::default();
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let taken: Vec<_> = (0..3).map(|_| places.take(address, 3).unwrap()).collect();
        assert!(places.take(address, 3).is_none());
        assert!(places.take("10.0.0.2".parse().unwrap(), 3).is_some());
        drop(taken);
        assert!(places.take(address, 3).is_some());
        assert!(lock(&places.0).is_empty());
    }
}
