//! Streams that nobody reads, beside others.

use super::*;

/// Who reads nothing of one stream still gets the others.
#[test]
fn a_stream_that_nobody_reads_leaves_others_their_window() {
    for (shares, passes) in [(1, false), (2, true)] {
        let (mut a, mut b) = pair(StreamsConfig {
            window_shares: shares,
            ..small()
        });
        let (idle, busy) = (a.open().expect("allowed"), a.open().expect("allowed"));
        write(&mut a, idle, &bytes_of(idle, true, 0, 8 << 10)).expect("room");
        flush(&mut a, &mut b, Time::ZERO);
        write(&mut a, busy, &bytes_of(busy, true, 0, 1 << 10)).expect("room");
        flush(&mut a, &mut b, Time::ZERO);
        let read = b.read(Time::ZERO, busy, 1 << 20);
        assert_eq!(read.is_ok(), passes, "{shares}");
        assert!(b.allocated() <= 9 << 10);
    }
}

/// The window of a stream that is read fast grows, and the connection's with it.
#[test]
fn streams_that_were_read_fast_and_then_not_leave_others_their_window() {
    let (mut a, mut b) = pair(StreamsConfig {
        window_shares: 4,
        send_buffer: 256 << 10,
        ..small()
    });
    // All shares but one.
    let idle = [(); 3].map(|()| a.open().expect("allowed"));
    for stream in idle {
        let mut at = 0;
        for _ in 0..4 {
            at += write(&mut a, stream, &bytes_of(stream, true, at, 4 << 10)).expect("room") as u64;
            flush(&mut a, &mut b, Time::ZERO);
            read_all(&mut b, Time::ZERO, stream);
            flush(&mut b, &mut a, Time::ZERO);
        }
        write(&mut a, stream, &bytes_of(stream, true, at, 16 << 10)).expect("room");
        flush(&mut a, &mut b, Time::ZERO);
    }
    let busy = a.open().expect("allowed");
    let mut at = 0;
    for _ in 0..50 {
        at += write(&mut a, busy, &bytes_of(busy, true, at, 1 << 10)).expect("room") as u64;
        flush(&mut a, &mut b, Time::ZERO);
        assert_eq!(read_all(&mut b, Time::ZERO, busy).len(), 1 << 10);
        flush(&mut b, &mut a, Time::ZERO);
    }
}

/// However many streams were read fast, one after the other or together, and then aren't any more.
#[test]
fn all_streams_but_one_may_go_unread() {
    const MIB: u64 = 1 << 20;
    for together in [false, true] {
        let (mut a, mut b) = pair(StreamsConfig {
            initial_receive_window: 4 * MIB,
            max_receive_window: 64 * MIB,
            window_shares: 8,
            send_buffer: 1200 * MIB,
            max_streams: 128,
            initiator: true,
        });
        let idle = [(); 127].map(|()| a.open().expect("allowed"));
        let piece = vec![7; MIB as usize];
        let rounds = match together {
            true => vec![&idle[..]; 12],
            false => idle.chunks(1).flat_map(|one| [one; 12]).collect(),
        };
        for streams in rounds {
            for &stream in streams {
                write(&mut a, stream, &piece).expect("room");
            }
            for _ in 0..8 {
                let flight = flush(&mut a, &mut b, Time::ZERO);
                ack(&mut a, flight);
                for &stream in streams {
                    read_all(&mut b, Time::ZERO, stream);
                }
                let flight = flush(&mut b, &mut a, Time::ZERO);
                ack(&mut b, flight);
            }
        }
        let grown = b.streams[&idle[0]].recv.window_size();
        assert!(grown > 256 << 10, "{grown}");
        // Nobody reads them any more.
        for stream in idle {
            while write(&mut a, stream, &piece) == Ok(piece.len()) && a.unsent_bytes() < 200 * MIB {
            }
            flush(&mut a, &mut b, Time::ZERO);
        }
        b.check_books();
        assert!(b.allocated() as u64 <= 64 * MIB * 9 / 8);
        let busy = a.open().expect("allowed");
        let mut at = 0;
        for _ in 0..50 {
            at += write(&mut a, busy, &bytes_of(busy, true, at, 64 << 10)).expect("room") as u64;
            let flight = flush(&mut a, &mut b, Time::ZERO);
            ack(&mut a, flight);
            assert_eq!(read_all(&mut b, Time::ZERO, busy).len(), 64 << 10);
            flush(&mut b, &mut a, Time::ZERO);
        }
    }
}

/// Before anything was read of them.
#[test]
fn windows_that_grow_behind_a_gap_keep_to_their_share() {
    let config = StreamsConfig {
        window_shares: 4,
        ..small()
    };
    let (mut a, mut b) = pair(config);
    let first = config.initial_stream_window();
    for _ in 0..3 {
        let id = a.open().expect("allowed");
        let (mut sent, mut limit) = (1, first);
        while sent < limit {
            let data = bytes_of(id, true, sent, limit - sent);
            let taken = b.on_stream(Time::ZERO, RTT, id, sent, &data, false);
            taken.expect("what the limits allow");
            b.check_books();
            sent = limit;
            while let Some(control) = b.poll_control() {
                if let Frame::MaxStreamData { stream, max } = control {
                    assert_eq!(stream, id);
                    limit = max;
                }
            }
        }
        assert!(limit <= 16 << 10, "{limit}");
    }
    let id = a.open().expect("allowed");
    let data = bytes_of(id, true, 0, first);
    b.on_stream(Time::ZERO, RTT, id, 0, &data, false)
        .expect("room");
}
