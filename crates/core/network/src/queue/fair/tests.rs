use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn packet(flow: u32, bytes: u32, ticket: u32) -> Held {
    Held {
        ticket,
        at: 0,
        bytes,
        ecn: false,
        l4s: false,
        flow,
        class: 0,
    }
}

fn drr(quantum: u32) -> FairQueue {
    FairQueue::drr(&Drr {
        quantum,
        ..Drr::new(Limit::Packets(1000))
    })
}

/// CoDel never drops here: no time passes.
fn fq() -> FairQueue {
    FairQueue::fq_codel(&FqCoDel::new(Limit::Packets(1000)), 1)
}

fn next(queue: &mut FairQueue) -> Option<(u32, u32)> {
    let (held, marked) = queue.take(0, &mut Vec::new())?;
    assert!(!marked);
    Some((held.flow, held.ticket))
}

#[test]
fn flows_take_turns() {
    let mut queue = drr(1500);
    for (n, flow) in [1, 1, 1, 2, 2, 3].into_iter().enumerate() {
        queue.push(packet(flow, 1500, n as u32));
    }
    let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!(order, [(1, 0), (2, 3), (3, 5), (1, 1), (2, 4), (1, 2)]);
    // Nobody is remembered, so that it never has more queues than packets.
    assert!(queue.index.is_empty() && queue.queues.len() == 3);
    for flow in 100..1000 {
        queue.push(packet(flow, 40, 0));
        next(&mut queue);
        assert_eq!(next(&mut queue), None);
    }
    assert_eq!(queue.queues.len(), 3);
}

/// RFC 8290, section 4.2: a flow that had nothing goes first, but only until the quantum is used
/// up, or its queue has been empty once.
#[test]
fn sparse_flows_go_first() {
    let mut queue = fq();
    for n in 0..10 {
        queue.push(packet(1, 1500, n));
    }
    // A packet of 1500 bytes leaves 14 of the quantum of 1514.
    assert_eq!(next(&mut queue), Some((1, 0)));
    assert_eq!(next(&mut queue), Some((1, 1)));
    queue.push(packet(2, 100, 100));
    assert_eq!(next(&mut queue), Some((2, 100)));
    // Its queue became empty: it is old now, and waits for its turn behind the other.
    assert_eq!(next(&mut queue).unwrap().0, 1);
    queue.push(packet(2, 100, 101));
    assert_eq!(next(&mut queue).unwrap().0, 2);
    // DRR makes no difference.
    let mut queue = drr(1514);
    for n in 0..3 {
        queue.push(packet(1, 1500, n));
    }
    next(&mut queue);
    queue.push(packet(2, 100, 100));
    assert_eq!(next(&mut queue), Some((1, 1)));
}

#[test]
fn the_longest_queue_makes_room() {
    let mut dropped = Vec::new();
    let mut queue = drr(1500);
    assert!(!queue.evict(&mut dropped));
    queue.push(packet(1, 1000, 0));
    for n in 1..5 {
        queue.push(packet(2, 300, n));
    }
    assert!(queue.evict(&mut dropped));
    assert_eq!(dropped, [packet(2, 300, 1)]);
    // Half of its packets, at most 64.
    for (packets, expected) in [(1, 1), (7, 3), (500, 64)] {
        let mut queue = fq();
        (0..packets).for_each(|n| queue.push(packet(1, 1500, n)));
        queue.push(packet(2, 100, 1000));
        dropped.clear();
        assert!(queue.evict(&mut dropped));
        let due: Vec<Held> = (0..expected).map(|n| packet(1, 1500, n)).collect();
        assert_eq!(dropped, due);
    }
}

#[test]
fn each_queue_has_its_own_codel() {
    let mut queue = fq();
    let ms = |ms| Duration::from_millis(ms).as_nanos() as u64;
    let mut dropped = Vec::new();
    // Flow 1 keeps a standing queue, flow 2 sends a packet now and then.
    for at in 1000..4000 {
        while queue
            .queues
            .first()
            .is_none_or(|queue| queue.fifo.len() < 50)
        {
            queue.push(Held {
                at: ms(at - 50),
                ..packet(1, 1500, 0)
            });
        }
        if at % 10 == 0 {
            queue.push(Held {
                at: ms(at),
                ..packet(2, 100, 0)
            });
        }
        queue.take(ms(at), &mut dropped);
    }
    assert!(dropped.len() > 50, "{}", dropped.len());
    assert!(dropped.iter().all(|held| held.flow == 1));
}

#[test]
fn hashing_spreads_flows() {
    let mut queue = fq();
    (0..1024).for_each(|flow| queue.push(packet(flow, 100, flow)));
    // 1024 balls in 1024 urns fill 1 − 1/e of them; the standard deviation is about 10.
    let filled = queue.queues.len();
    assert!((605..690).contains(&filled), "{filled}");
    let other = FqCoDel {
        queues: 1,
        ..FqCoDel::new(Limit::Packets(1000))
    };
    let mut one = FairQueue::fq_codel(&other, 1);
    (0..100).for_each(|flow| one.push(packet(flow, 100, flow)));
    let order: Vec<_> = std::iter::from_fn(|| next(&mut one)).collect();
    let arrivals: Vec<_> = (0..100).map(|flow| (flow, flow)).collect();
    assert_eq!(order, arrivals);
}

proptest! {
    /// Shreedhar and Varghese, theorem 2: two flows that always have packets never differ by more
    /// than a quantum and two of the largest packets.
    #[test]
    fn backlogged_flows_get_equal_bytes(
        sizes in prop::collection::vec(64u32..1501, 2..6),
        quantum in 64u32..4000,
        hashed: bool,
        rounds in 1usize..400,
    ) {
        let mut queue = match hashed {
            // Few enough for no two flows to meet, with this salt.
            true => FairQueue::fq_codel(
                &FqCoDel { quantum, queues: 65_536, ..FqCoDel::new(Limit::Packets(1000)) },
                3,
            ),
            false => drr(quantum),
        };
        let mut sent = vec![0u64; sizes.len()];
        let flows = || sizes.iter().enumerate();
        for (flow, &bytes) in flows() {
            queue.push(packet(flow as u32, bytes, 0));
            queue.push(packet(flow as u32, bytes, 0));
        }
        for _ in 0..rounds {
            let (held, _) = queue.take(0, &mut Vec::new()).unwrap();
            sent[held.flow as usize] += u64::from(held.bytes);
            queue.push(held);
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        prop_assert!(most - least <= u64::from(quantum) + 3000, "{:?}", sent);
    }
}
