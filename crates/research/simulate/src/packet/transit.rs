//! What is on its way, and where it goes next.

use manyway_units::Time;

/// A packet on its way. Two whole words, which are passed in registers.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(super) struct Transit {
    /// Packet number, or the index of an acknowledgement's record.
    pub(super) number: u64,
    /// The subflow's number; above that, what the constants below say.
    place: u64,
}

/// A packet on its way, and when it is where it goes next.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: Time,
    pub(super) item: Transit,
}

/// What happens to a packet when its time has come.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Stage {
    /// A data packet enters its route's next link.
    Forward,
    /// A data packet gets to the receiver.
    Receive,
    /// The acknowledgement of this one data packet gets to the sender.
    Acknowledged,
    /// A recorded acknowledgement enters the next link of the return path.
    Backward,
    /// A recorded acknowledgement gets to the sender.
    Returned,
    /// No packet: a link decides about packets that wait. Its number is in the subflow's place.
    Decide,
}

const STAGE: u64 = 0xff << 32;
const HOP: u64 = 0xff00 << 32;
const ONE_HOP: u64 = 0x100 << 32;
const MARKED: u64 = 0x1_0000 << 32;

impl Due {
    /// Fills places that hold nothing.
    pub(super) const NOTHING: Self = Self {
        at: Time::MAX,
        item: Transit {
            number: 0,
            place: (Stage::Decide as u64) << 32,
        },
    };
}

impl Transit {
    /// A packet at the beginning of its way.
    #[inline]
    pub(super) fn new(subflow: u32, number: u64, stage: Stage) -> Self {
        Self {
            number,
            place: u64::from(subflow) | (stage as u64) << 32,
        }
    }

    #[inline]
    pub(super) fn subflow(self) -> u32 {
        self.place as u32
    }

    #[inline]
    pub(super) fn stage(self) -> Stage {
        match (self.place & STAGE) >> 32 {
            0 => Stage::Forward,
            1 => Stage::Receive,
            2 => Stage::Acknowledged,
            3 => Stage::Backward,
            4 => Stage::Returned,
            _ => Stage::Decide,
        }
    }

    #[inline]
    pub(super) fn set_stage(&mut self, stage: Stage) {
        self.place = self.place & !STAGE | (stage as u64) << 32;
    }

    /// How many links of its route it has passed.
    #[inline]
    pub(super) fn hop(self) -> usize {
        ((self.place & HOP) >> 40) as usize
    }

    #[inline]
    pub(super) fn pass_hop(&mut self) {
        self.place += ONE_HOP;
    }

    /// Whether it carries the mark Congestion Experienced.
    #[inline]
    pub(super) fn is_marked(self) -> bool {
        self.place & MARKED != 0
    }

    #[inline]
    pub(super) fn mark(&mut self) {
        self.place |= MARKED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_keep_their_parts_apart() {
        let mut item = Transit::new(2, 0, Stage::Forward);
        for hop in 0..255 {
            assert_eq!(item.hop(), hop);
            item.pass_hop();
        }
        assert!(!item.is_marked());
        item.mark();
        for stage in [
            Stage::Forward,
            Stage::Receive,
            Stage::Acknowledged,
            Stage::Backward,
            Stage::Returned,
            Stage::Decide,
        ] {
            item.set_stage(stage);
            assert_eq!(
                (item.stage(), item.hop(), item.is_marked()),
                (stage, 255, true)
            );
        }
    }
}
