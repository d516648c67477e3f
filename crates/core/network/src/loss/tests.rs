use super::*;
use proptest::prelude::*;

const BURSTS: Loss = Loss::GilbertElliott {
    good_to_bad: 0.01,
    bad_to_good: 0.2,
    good: 0.0,
    bad: 1.0,
};

fn losses(loss: Loss, seed: u64, packets: usize) -> Vec<bool> {
    let mut losses = Losses::new(loss, seed).unwrap();
    (0..packets).map(|_| losses.next()).collect()
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

/// Lengths of the runs of lost packets.
fn bursts(lost: &[bool]) -> Vec<usize> {
    let runs = lost.chunk_by(|a, b| a == b);
    runs.filter(|run| run[0]).map(<[bool]>::len).collect()
}

#[test]
fn mean_loss_in_closed_form() {
    assert_eq!(Loss::None.mean(), 0.0);
    assert_eq!(Loss::Bernoulli(0.02).mean(), 0.02);
    // In the bad state 1/21 of the time.
    assert!((BURSTS.mean() - 1.0 / 21.0).abs() < 1e-15);
    let both = Loss::GilbertElliott {
        good_to_bad: 0.1,
        bad_to_good: 0.3,
        good: 0.04,
        bad: 0.8,
    };
    assert!((both.mean() - (0.75 * 0.04 + 0.25 * 0.8)).abs() < 1e-15);
}

#[test]
fn bursts_have_the_stationary_loss_and_the_lengths_of_the_chain() {
    const PACKETS: usize = 400_000;
    let lost = losses(BURSTS, 5, PACKETS);
    // Neighbours correlate by r = 1 − 0.01 − 0.2, which multiplies the variance p(1 − p)/n by (1 +
    // r)/(1 − r).
    let p = BURSTS.mean();
    let deviation = (p * (1.0 - p) * 1.79 / 0.21 / PACKETS as f64).sqrt();
    assert!((share(&lost) - p).abs() < 4.0 * deviation);

    // Geometric with mean 1/0.2 and variance 0.8/0.2², about 3800 of them.
    let lengths = bursts(&lost);
    let count = lengths.len() as f64;
    assert!(count > 3500.0, "{count}");
    let mean = lengths.iter().sum::<usize>() as f64 / count;
    let deviation = (0.8 / 0.04 / count).sqrt();
    assert!((mean - 5.0).abs() < 4.0 * deviation, "{mean}");
    for (length, expected) in [(1, 0.2), (2, 0.16), (3, 0.128)] {
        let share = lengths.iter().filter(|l| **l == length).count() as f64 / count;
        let deviation = (expected * (1.0 - expected) / count).sqrt();
        assert!(
            (share - expected).abs() < 4.0 * deviation,
            "{length}: {share}"
        );
    }
}

#[test]
fn a_loss_in_either_state() {
    let loss = Loss::GilbertElliott {
        good_to_bad: 0.1,
        bad_to_good: 0.3,
        good: 0.04,
        bad: 0.8,
    };
    let share = share(&losses(loss, 6, 400_000));
    // As above with r = 0.6: at most p(1 − p)/n × 4.
    let p = loss.mean();
    let deviation = (p * (1.0 - p) * 4.0 / 400_000.0).sqrt();
    assert!((share - p).abs() < 4.0 * deviation, "{share}");
}

#[test]
fn the_first_packet_finds_the_stationary_distribution() {
    let first: Vec<bool> = (0..20_000).map(|seed| losses(BURSTS, seed, 1)[0]).collect();
    let p = BURSTS.mean();
    let deviation = (p * (1.0 - p) / 20_000.0).sqrt();
    assert!((share(&first) - p).abs() < 4.0 * deviation);
}

#[test]
fn bernoulli_losses_are_independent() {
    let lost = losses(Loss::Bernoulli(0.3), 8, 100_000);
    let deviation = (0.3_f64 * 0.7 / 100_000.0).sqrt();
    assert!((share(&lost) - 0.3).abs() < 4.0 * deviation);
    // Bursts of independent losses have a mean of 1/(1 − p); there are 21,000.
    let lengths = bursts(&lost);
    let count = lengths.len() as f64;
    let mean = lengths.iter().sum::<usize>() as f64 / count;
    let deviation = (0.3_f64 / 0.49 / count).sqrt();
    assert!((mean - 1.0 / 0.7).abs() < 4.0 * deviation, "{mean}");
}

#[test]
fn nothing_to_lose() {
    assert!(Losses::new(Loss::None, 1).is_none());
    assert_eq!(share(&losses(Loss::Bernoulli(0.0), 1, 1000)), 0.0);
}

proptest! {
    #[test]
    fn what_is_valid_loses_some_but_not_all_in_the_long_run(
        good_to_bad in -0.1..1.1_f64, bad_to_good in -0.1..1.1_f64,
        good in -0.1..1.1_f64, bad in -0.1..1.1_f64, seed: u64,
    ) {
        let loss = Loss::GilbertElliott { good_to_bad, bad_to_good, good, bad };
        if loss.validate().is_ok() {
            let mean = loss.mean();
            prop_assert!((0.0..1.0).contains(&mean), "{}", mean);
            losses(loss, seed, 100);
        }
    }
}

#[test]
fn one_in_so_many_at_equal_distances() {
    let loss = Loss::Periodic { every: 3 };
    assert_eq!((loss.validate(), loss.mean()), (Ok(()), 1.0 / 3.0));
    let mut losses = Losses::new(loss, 1).unwrap();
    let lost: Vec<usize> = (1..10).filter(|_| losses.next()).collect();
    assert_eq!(lost, [3, 6, 9]);
    let all = Loss::Periodic { every: 1 }.validate().unwrap_err();
    assert_eq!(all.field, "loss.every");
}
