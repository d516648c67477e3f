//! The addresses between which a handshake was answered: those that its connection can begin with.

use std::net::SocketAddr;

use manyway_units::Time;

use crate::driver::LocalId;

/// Addresses remembered of one handshake. An initiator sends its INIT from one pair of addresses to
/// the other, 250 ms apart, and goes on with the first that is answered.
const MAX_PLACES: usize = 5;

/// A pair of addresses between which an INIT and its answer went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the INIT arrived.
    pub local: LocalId,
    /// Where it came from, and the answer went.
    pub remote: SocketAddr,
    /// Bytes of the INITs that came from there.
    pub received: u64,
    /// Bytes of the answers.
    pub sent: u64,
    /// When the only answer left; `None` if there were several.
    pub answered: Option<Time>,
}

/// The pairs of one handshake, the first first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Vec<Place>);

impl Places {
    /// An INIT was answered. Of too many pairs, the first are remembered: copies that somebody
    /// sends from ever more addresses don't push out the one that they were copied from.
    pub(crate) fn note(&mut self, place: Place) {
        let same = |known: &&mut Place| known.local == place.local && known.remote == place.remote;
        if let Some(known) = self.0.iter_mut().find(same) {
            known.received += place.received;
            known.sent += place.sent;
            known.answered = None;
        } else if self.0.len() < MAX_PLACES {
            self.0.push(place);
        }
    }

    /// The pair of these addresses, if it is one; else the first.
    pub(crate) fn likeliest(&self, local: LocalId, remote: SocketAddr) -> Option<Place> {
        let is_it = |place: &&Place| place.local == local && place.remote == remote;
        let known = self.0.iter().find(is_it);
        known.or_else(|| self.0.first()).copied()
    }

    /// The pair of these addresses, if the handshake was answered nowhere else.
    pub(crate) fn only(&self, local: LocalId, remote: SocketAddr) -> Option<Place> {
        let is_it = |place: &Place| place.local == local && place.remote == remote;
        let [only] = self.0[..] else {
            return None;
        };
        Some(only).filter(is_it)
    }

    /// All pairs of one socket of ours.
    pub(crate) fn of(&self, local: LocalId) -> impl Iterator<Item = Place> {
        self.0.iter().filter(move |p| p.local == local).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(local: u32, last: u8) -> Place {
        Place {
            local: LocalId(local),
            remote: SocketAddr::from(([192, 0, 2, last], 9)),
            received: 1200,
            sent: 300,
            answered: Some(Time::from_millis(7)),
        }
    }

    #[test]
    fn the_first_pairs_are_remembered_with_all_that_went_between_them() {
        let mut places = Places::default();
        for last in 0..100 {
            places.note(place(1, last));
        }
        places.note(place(1, 3));
        assert_eq!(places.of(LocalId(1)).count(), MAX_PLACES);
        let known = places
            .likeliest(LocalId(1), place(1, 3).remote)
            .expect("one");
        assert_eq!((known.received, known.sent), (2400, 600));
        assert_eq!(known.answered, None);
    }

    #[test]
    fn a_pair_is_the_only_one_until_there_is_another() {
        let mut places = Places::default();
        let only = |places: &Places, local, last| {
            let remote = place(local, last).remote;
            places.only(LocalId(local), remote)
        };
        assert_eq!(only(&places, 1, 1), None);
        places.note(place(1, 1));
        assert_eq!(only(&places, 1, 1), Some(place(1, 1)));
        assert_eq!(only(&places, 1, 2), None);
        assert_eq!(only(&places, 2, 1), None);
        places.note(place(1, 2));
        assert_eq!(only(&places, 1, 1), None);
    }

    #[test]
    fn a_stranger_does_not_become_the_place() {
        let mut places = Places::default();
        assert_eq!(places.likeliest(LocalId(1), place(1, 9).remote), None);
        places.note(place(1, 1));
        places.note(place(2, 2));
        let likeliest = |local, last| places.likeliest(LocalId(local), place(0, last).remote);
        assert_eq!(likeliest(1, 9), Some(place(1, 1)));
        assert_eq!(likeliest(2, 2), Some(place(2, 2)));
        assert_eq!(likeliest(1, 2), Some(place(1, 1)), "on another socket");
    }
}
