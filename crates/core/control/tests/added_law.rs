//! Laws that a program adds to the registry: here alone, as other tests go over all laws.

use std::time::Duration;

use manyway_control::laws::Lia;
use manyway_control::registry::{add, laws};
use manyway_control::{Ack, Controller, Law, LawSpec, Loss, NewPath, Options, Path};
use manyway_units::Time;

/// A law that somebody adds runs as one of the table does, here as a copy of LIA.
#[test]
fn laws_can_be_added() {
    #[derive(Debug)]
    struct Own(&'static str);
    impl Law for Own {
        fn increase(&self, paths: &[Path<f64>], r: usize) -> f64 {
            Law::increase(&Lia, paths, r)
        }
        fn decrease(&self, paths: &[Path<f64>], r: usize) -> f64 {
            Law::decrease(&Lia, paths, r)
        }
        fn name(&self) -> &'static str {
            self.0
        }
        fn min_ssthresh(&self, paths: usize) -> f64 {
            Law::min_ssthresh(&Lia, paths)
        }
    }
    let make = |name| -> Box<dyn Law> { Box::new(Own(name)) };
    let refused = |name: &str| add(name, "", make).unwrap_err().to_string();
    assert_eq!(
        refused("lia"),
        "there is a law lia already: take another name"
    );
    for wrong in ["", "Own", "-own", "own law", "own:a=1", &"a".repeat(65)] {
        assert!(
            refused(wrong).contains("can't be the name of a law"),
            "{wrong}"
        );
    }
    let before = laws().count();
    add("own-of-tests", "a copy of lia", make).unwrap();
    assert!(refused("own-of-tests").contains("already"));
    assert_eq!(laws().count(), before + 1);

    let own = "own-of-tests".parse::<LawSpec>().unwrap();
    assert_eq!((own.name(), own.about()), ("own-of-tests", "a copy of lia"));
    assert!(own.window_law().is_none());
    let windows = |law: &LawSpec| {
        let mut controller = law.controller(&Options::default());
        let now = Time::ZERO + Duration::from_secs(1);
        let [a, _] = [10.0, 20.0].map(|initial_window| {
            controller.add_path(NewPath {
                now,
                initial_window,
                packet_size: 1500,
                initial_rtt: Duration::from_millis(50),
            })
        });
        controller.on_loss(&Loss {
            slot: a,
            now,
            sent: Time::ZERO,
            packets: 1.0,
        });
        let cut = controller.window(a);
        controller.on_ack(&Ack {
            slot: a,
            now,
            packets: 1.0,
            rtt: Duration::from_millis(40),
            rtt_sampled: true,
            smoothed_rtt: Duration::from_millis(45),
            min_rtt: Duration::from_millis(40),
            sent: Time::ZERO,
            received: None,
            app_limited: false,
            in_recovery: false,
            delivery: None,
        });
        (cut, controller.window(a))
    };
    assert_eq!(windows(&own), windows(&LawSpec::lia()));
}
