use super::*;

fn packet(class: u8, ticket: u32) -> Held {
    Held {
        ticket,
        at: 0,
        bytes: 100,
        ecn: false,
        l4s: false,
        flow: 0,
        class,
    }
}

#[test]
fn higher_classes_first() {
    let mut queue = PriorityQueue::default();
    for (n, class) in [0, 3, 7, 3, 0, 200].into_iter().enumerate() {
        queue.push(packet(class, n as u32));
    }
    let order: Vec<u32> = std::iter::from_fn(|| queue.take().map(|held| held.ticket)).collect();
    assert_eq!(order, [2, 5, 1, 3, 0, 4]);
}

#[test]
fn the_lowest_class_gives_way() {
    let mut queue = PriorityQueue::default();
    for (n, class) in [1, 1, 4].into_iter().enumerate() {
        queue.push(packet(class, n as u32));
    }
    let mut dropped = Vec::new();
    assert!(!queue.evict(0, &mut dropped) && !queue.evict(1, &mut dropped));
    assert!(queue.evict(3, &mut dropped));
    assert_eq!(dropped, [packet(1, 0)]);
    assert!(queue.evict(5, &mut dropped) && queue.evict(5, &mut dropped));
    assert_eq!(dropped[1..], [packet(1, 1), packet(4, 2)]);
    assert!(!queue.evict(7, &mut dropped));
}
