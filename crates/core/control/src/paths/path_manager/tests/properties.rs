use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Rtt(u64),
    Relays(std::ops::Range<u64>),
    Answer(u64),
    Delivered(u64, u64),
    DirectLoss(f64),
    Loss(u64),
    DirectTimeout,
    Timeout(u64),
    Verdict(u64, PathVerdict),
    Gone(u64),
    Unsatisfied(bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let relay = 0..20_u64;
    let verdict = prop_oneof![
        Just(PathVerdict::Keep),
        Just(PathVerdict::Drained),
        Just(PathVerdict::TimedOut)
    ];
    prop_oneof![
        1 => (0..u64::MAX).prop_map(Step::Rtt),
        2 => (0..500_000_000_u64).prop_map(Step::Rtt),
        2 => (0..20_u64, 0..20_u64).prop_map(|(from, count)| Step::Relays(from..from + count)),
        10 => relay.clone().prop_map(Step::Answer),
        5 => (relay.clone(), any::<u64>()).prop_map(|(relay, bytes)| Step::Delivered(relay, bytes)),
        5 => prop_oneof![0.0..100.0, Just(f64::NAN), Just(f64::INFINITY), Just(-1.0)]
            .prop_map(Step::DirectLoss),
        10 => relay.clone().prop_map(Step::Loss),
        1 => Just(Step::DirectTimeout),
        2 => relay.clone().prop_map(Step::Timeout),
        3 => (relay.clone(), verdict).prop_map(|(relay, verdict)| Step::Verdict(relay, verdict)),
        1 => relay.prop_map(Step::Gone),
        1 => prop::bool::weighted(0.7).prop_map(Step::Unsatisfied),
        15 => (0..2_000_u64).prop_map(Step::Wait),
    ]
}

/// What the owner of a manager knows.
#[derive(Default)]
struct Owner {
    open: BTreeSet<RelayKey>,
    fresh: BTreeSet<RelayKey>,
    available: BTreeSet<RelayKey>,
    given_up: BTreeSet<RelayKey>,
    /// Probes under way, answered or not.
    waiting: BTreeSet<RelayKey>,
    last_probe: Option<Time>,
}

impl Owner {
    fn obey(&mut self, now: Time, command: Command) -> Result<(), TestCaseError> {
        match command {
            Command::Probe(relay) => {
                prop_assert!(!self.available.contains(&relay) && !self.given_up.contains(&relay));
                if let Some(last) = self.last_probe.replace(now) {
                    prop_assert!(now.since(last) >= Duration::from_millis(250));
                }
                prop_assert!(self.waiting.insert(relay), "{relay:?} is being probed");
            }
            Command::Open(relay) => {
                prop_assert!(self.available.contains(&relay), "{relay:?} never answered");
                prop_assert!(!self.given_up.contains(&relay));
                prop_assert!(self.open.insert(relay), "{relay:?} is open");
                self.fresh.insert(relay);
            }
            Command::Resend(relay) => {
                prop_assert!(!self.available.contains(&relay), "{relay:?} has answered");
                prop_assert!(
                    self.waiting.remove(&relay),
                    "{relay:?} has no probe under way"
                );
            }
            Command::Close { relay, for_good } => {
                prop_assert!(self.open.remove(&relay), "{relay:?} isn't open");
                self.fresh.remove(&relay);
                if for_good {
                    self.given_up.insert(relay);
                }
            }
            Command::MoreRelays => {}
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn commands_make_sense_whatever_happens(
        steps in prop::collection::vec(step(), 0..400),
        beta in 0.01..1.0_f64,
        max_open in 1..10_usize,
        idle in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let config = ManagerConfig {
            beta,
            max_open,
            max_relays: 30,
            reuse: if idle { Reuse::BestIdle } else { Reuse::Best },
            rest: Duration::from_secs(1),
            ..ManagerConfig::default()
        };
        let mut manager = PathManager::new(config, seed).unwrap();
        let (mut owner, mut now) = (Owner::default(), ms(0));
        for step in steps {
            let mut creates = false;
            match step {
                Step::Rtt(nanos) => {
                    manager.handle(now, Event::DirectRtt(Duration::from_nanos(nanos)))
                }
                Step::Relays(range) => manager.handle(now, Event::Relays(&relays(range))),
                Step::Answer(relay) => {
                    let unused = manager.counts().unused;
                    manager.handle(now, Event::Answered(RelayKey(relay)));
                    if manager.counts().unused > unused {
                        owner.available.insert(RelayKey(relay));
                    }
                }
                Step::Delivered(relay, bytes) => {
                    manager.handle(now, Event::Delivered { relay: RelayKey(relay), bytes });
                }
                Step::DirectLoss(window) => {
                    creates = owner.fresh.is_empty();
                    manager.handle(now, Event::Loss { path: PathKey::Direct, window });
                }
                Step::DirectTimeout => {
                    creates = owner.fresh.is_empty();
                    manager.handle(now, Event::Timeout { path: PathKey::Direct, window: 2.0 });
                }
                Step::Loss(relay) => {
                    lose_at(&mut manager, now, RelayKey(relay));
                    owner.fresh.remove(&RelayKey(relay));
                }
                Step::Timeout(relay) => {
                    let path = PathKey::Via(RelayKey(relay));
                    manager.handle(now, Event::Timeout { path, window: 2.0 });
                }
                Step::Verdict(relay, verdict) => {
                    manager.handle(now, Event::Verdict { relay: RelayKey(relay), verdict });
                }
                Step::Gone(relay) => {
                    manager.handle(now, Event::Gone(RelayKey(relay)));
                    owner.open.remove(&RelayKey(relay));
                    owner.fresh.remove(&RelayKey(relay));
                }
                Step::Unsatisfied(unsatisfied) => {
                    manager.handle(now, Event::Unsatisfied(unsatisfied))
                }
                Step::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    manager.on_timeout(now);
                }
            }
            let commands = commands(&mut manager);
            prop_assert!(creates || opened(&commands).is_empty());
            for command in commands {
                owner.obey(now, command)?;
            }
            prop_assert!(owner.open.len() <= max_open);
            let counts = manager.counts();
            prop_assert_eq!(counts.open, owner.open.len());
            prop_assert_eq!(manager.book.open(), counts.open);
            prop_assert_eq!(manager.book.all_met_loss(), owner.fresh.is_empty());
            prop_assert!(owner.open.iter().all(|&relay| manager.is_open(relay)));
            // Whoever keeps the time has nothing to do now.
            prop_assert!(manager.timeout().is_none_or(|at| at >= now), "{:?}", manager.timeout());
        }
    }
}

fn lose_at(manager: &mut PathManager, now: Time, relay: RelayKey) {
    let path = PathKey::Via(relay);
    manager.handle(now, Event::Loss { path, window: 1.0 });
}
