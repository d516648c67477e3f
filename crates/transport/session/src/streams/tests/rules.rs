//! The rules, one by one.

use super::*;

#[test]
fn ids_name_the_opener() {
    let (mut a, mut b) = pair(small());
    assert_eq!((a.open(), a.open()), (Ok(StreamId(0)), Ok(StreamId(4))));
    assert_eq!((b.open(), b.open()), (Ok(StreamId(1)), Ok(StreamId(5))));
    let uni = (a.open_uni(), a.open_uni(), b.open_uni());
    assert_eq!(uni, (Ok(StreamId(2)), Ok(StreamId(6)), Ok(StreamId(3))));
}

#[test]
fn a_unidirectional_stream_goes_one_way() {
    let (mut a, mut b) = pair(small());
    let id = a.open_uni().expect("allowed");
    assert_eq!(a.read(Time::ZERO, id, 1), Err(ReadError::Closed));
    assert_eq!(a.stop(id, 0), Err(ReadError::Closed));
    write(&mut a, id, b"abc").expect("room");
    a.finish(id).expect("open");
    let flight = flush(&mut a, &mut b, Time::ZERO);
    assert_eq!((b.accept(), b.accept_uni()), (None, Some(id)));
    assert_eq!(write(&mut b, id, b"x"), Err(WriteError::Closed));
    assert_eq!(b.finish(id), Err(WriteError::Closed));
    assert_eq!(b.reset(id, 0), Err(WriteError::Closed));
    assert_eq!(read_all(&mut b, Time::ZERO, id), b"abc");
    ack(&mut a, flight);
    assert_eq!(events(&mut a), [StreamEvent::Finished(id)]);
    assert_eq!((a.open_streams(), b.open_streams()), (0, 0));
    // That makes room for another of its kind.
    let kind = StreamKind::Unidirectional;
    assert_eq!(b.poll_control(), Some(Frame::MaxStreams { kind, count: 5 }));
    assert_eq!(b.poll_control(), None);
}

#[test]
fn each_kind_has_a_limit_of_its_own() {
    let (mut a, _) = pair(small());
    for _ in 0..4 {
        a.open_uni().expect("allowed");
    }
    assert_eq!(a.open_uni(), Err(OpenError::Limit { limit: 4 }));
    a.open().expect("allowed");
    a.on_max_streams(StreamKind::Bidirectional, 9);
    assert_eq!(a.open_uni(), Err(OpenError::Limit { limit: 4 }));
    a.on_max_streams(StreamKind::Unidirectional, 5);
    assert_eq!(events(&mut a), [StreamEvent::Available]);
    assert_eq!(a.open_uni(), Ok(StreamId(18)));
}

#[test]
fn a_higher_id_opens_the_lower_ones_too() {
    let (_, mut b) = pair(small());
    b.on_stream(Time::ZERO, RTT, StreamId(8), 0, b"x", false)
        .expect("allowed");
    assert_eq!(events(&mut b)[..3], [StreamEvent::Opened; 3]);
    assert_eq!(
        [b.accept(), b.accept(), b.accept(), b.accept()],
        [Some(0), Some(4), Some(8), None].map(|i| i.map(StreamId))
    );
}

#[test]
fn streams_are_limited_and_credit_comes_back() {
    let (mut a, mut b) = pair(small());
    let ids: Vec<_> = (0..4).map(|_| a.open().expect("allowed")).collect();
    assert_eq!(a.open(), Err(OpenError::Limit { limit: 4 }));
    for &id in &ids {
        a.finish(id).expect("open");
    }
    let flight = flush(&mut a, &mut b, Time::ZERO);
    ack(&mut a, flight);
    let id = b.accept().expect("opened");
    assert_eq!(b.read(Time::ZERO, id, 1), Ok(None));
    b.finish(id).expect("open");
    assert!(!b.has_control(), "this side's direction is not over yet");
    let flight = flush(&mut b, &mut a, Time::ZERO);
    ack(&mut b, flight);
    let kind = StreamKind::Bidirectional;
    let five = Frame::MaxStreams { kind, count: 5 };
    assert_eq!(b.poll_control(), Some(five.clone()));
    b.on_control_lost(&five);
    assert_eq!(b.poll_control(), Some(five));
    events(&mut a);
    a.on_max_streams(kind, 3);
    assert_eq!(events(&mut a), []);
    a.on_max_streams(kind, 5);
    assert_eq!(events(&mut a), [StreamEvent::Available]);
    assert_eq!(a.open(), Ok(StreamId(16)));
    // Its end is read: nothing more is kept of the first stream.
    assert_eq!(a.read(Time::ZERO, id, 1), Ok(None));
    assert_eq!((a.open_streams(), b.open_streams()), (4, 3));
}

#[test]
fn streams_take_turns() {
    let (mut a, _) = pair(small());
    let ids: Vec<_> = (0..3).map(|_| a.open().expect("allowed")).collect();
    for &id in &ids {
        assert_eq!(write(&mut a, id, &[0; 300]), Ok(300));
    }
    let order: Vec<_> = std::iter::from_fn(|| a.next_chunk(105, true))
        .map(|c| c.range.stream.0)
        .collect();
    assert_eq!(order[..9], [0, 4, 8, 0, 4, 8, 0, 4, 8]);
}

#[test]
fn small_writes_share_a_frame_and_the_end_rides_along() {
    let (mut a, _) = pair(small());
    let id = a.open().expect("allowed");
    for _ in 0..10 {
        write(&mut a, id, b"abc").expect("room");
    }
    a.finish(id).expect("open");
    let chunk = a.next_chunk(1200, true).expect("data");
    assert_eq!(
        chunk.range,
        StreamRange {
            stream: id,
            offset: 0,
            len: 30,
            fin: true
        }
    );
    assert_eq!(a.next_chunk(1200, true), None);
    assert!(!a.has_data());
}

#[test]
fn frames_fill_the_room_exactly_or_nearly() {
    let (mut a, _) = pair(StreamsConfig {
        initial_receive_window: 1 << 20,
        max_receive_window: 1 << 20,
        ..small()
    });
    let id = a.open().expect("allowed");
    write(&mut a, id, &[1; 30_000]).expect("room");
    for max in [5, 66, 67, 100, 1200, 16_390] {
        let chunk = a.next_chunk(max, true).expect("room for a byte");
        let size = overhead(id, chunk.range.offset, chunk.data.len()) + chunk.data.len();
        assert!((max - 1..=max).contains(&size), "{size} of {max}");
    }
    assert_eq!(a.next_chunk(4, true), None);
    assert!(a.has_data());
    for max in 0..10 {
        let chunk = a.next_chunk(max, true);
        assert!(chunk.is_none_or(|c| !c.data.is_empty()), "{max}");
    }
}

#[test]
fn lost_bytes_go_first_and_acked_ones_not_again() {
    let (mut a, _) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, &bytes_of(id, true, 0, 3000)).expect("room");
    let first = a.next_chunk(1000, true).expect("data").range;
    let second = a.next_chunk(1000, true).expect("data").range;
    a.on_lost(&first);
    a.on_lost(&first);
    a.on_acked(&StreamRange { len: 100, ..first });
    assert_eq!(a.unacked_bytes(), first.end() - 100 + u64::from(second.len));
    let again = a.next_chunk(2000, true).expect("lost");
    assert!(again.retransmission);
    assert_eq!((again.range.offset, again.range.end()), (100, first.end()));
    assert!(!a.next_chunk(2000, true).expect("new").retransmission);
    // A late acknowledgement of the first copy: neither copy is wanted any more.
    a.on_acked(&first);
    a.on_lost(&again.range);
    assert!(!a.has_data());
    assert_eq!(a.chunk(&first, 1000), None);
}

#[test]
fn a_range_is_read_again_for_another_path() {
    let (mut a, _) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, &bytes_of(id, true, 0, 1000)).expect("room");
    a.finish(id).expect("open");
    let whole = a.next_chunk(2000, true).expect("data").range;
    a.on_acked(&StreamRange {
        stream: id,
        offset: 200,
        len: 300,
        fin: false,
    });
    assert_eq!(a.unacked_bytes(), 700);
    let head = a.chunk(&whole, 2000).expect("unacked");
    assert_eq!(
        (head.range.offset, head.range.len, head.range.fin),
        (0, 200, false)
    );
    let rest = StreamRange {
        offset: 200,
        len: 800,
        ..whole
    };
    let tail = a.chunk(&rest, 2000).expect("unacked");
    assert_eq!(
        (tail.range.offset, tail.range.len, tail.range.fin),
        (500, 500, true)
    );
    assert_eq!(tail.data, bytes_of(id, true, 500, 500));
    // What is declared lost and then taken this way isn't sent a third time.
    a.on_lost(&whole);
    while a.chunk(&rest, 2000).is_some_and(|c| !c.range.fin) {}
    let left: Vec<_> = std::iter::from_fn(|| a.next_chunk(2000, true))
        .map(|c| c.range.offset)
        .collect();
    assert_eq!(left, [0]);
    a.on_acked(&head.range);
    a.on_acked(&tail.range);
    assert_eq!(events(&mut a), [StreamEvent::Finished(id)]);
}

#[test]
fn the_send_buffer_is_bounded_and_writers_wait_for_real_room() {
    let config = StreamsConfig {
        initial_receive_window: 1 << 20,
        max_receive_window: 1 << 20,
        ..small()
    };
    let (mut a, _) = pair(config);
    let (x, y) = (a.open().expect("allowed"), a.open().expect("allowed"));
    let mut data = Bytes::from(vec![0; 100_000]);
    assert_eq!(a.write(x, &mut data), Ok(32 << 10));
    assert_eq!(data.len(), 100_000 - (32 << 10));
    assert_eq!(a.write(x, &mut data), Err(WriteError::Blocked));
    assert_eq!(a.write(y, &mut data), Ok(4 << 10), "a share for everyone");
    assert_eq!(a.write(y, &mut data), Err(WriteError::Blocked));
    let ranges: Vec<_> = std::iter::from_fn(|| a.next_chunk(1000, true))
        .map(|c| c.range)
        .collect();
    // A bounded buffer frees an eighth before it says so, however small the packets.
    let mut acked = 0;
    for range in ranges.iter().filter(|r| r.stream == x) {
        assert_eq!(events(&mut a), [], "told after {acked} bytes");
        a.on_acked(range);
        acked += range.len;
        if acked >= 8 << 10 {
            break;
        }
    }
    assert!(acked >= 8 << 10);
    assert_eq!(
        events(&mut a),
        [StreamEvent::Writable(x), StreamEvent::Writable(y)]
    );
    assert!(a.write(x, &mut data).is_ok_and(|taken| taken >= 4 << 10));
}

/// Whoever waits for his own share is told when half of it is free, though another has filled the
/// buffer, and who doesn't wait isn't told at all.
#[test]
fn a_writer_waits_for_half_of_his_share_at_most() {
    let config = StreamsConfig {
        initial_receive_window: 1 << 20,
        max_receive_window: 1 << 20,
        ..small()
    };
    let (mut a, _) = pair(config);
    let (x, y) = (a.open().expect("allowed"), a.open().expect("allowed"));
    assert_eq!(write(&mut a, x, &[0; 32 << 10]), Ok(32 << 10));
    assert_eq!(write(&mut a, y, &[0; 5 << 10]), Ok(4 << 10));
    while a.next_chunk(1000, true).is_some() {}
    let head = StreamRange {
        stream: y,
        offset: 0,
        len: 2 << 10,
        fin: false,
    };
    a.on_acked(&head);
    assert_eq!(events(&mut a), [], "half of the share is taken");
    let more = StreamRange {
        offset: 2 << 10,
        len: 1,
        ..head
    };
    a.on_acked(&more);
    assert_eq!(events(&mut a), [StreamEvent::Writable(y)]);
    a.on_acked(&StreamRange {
        stream: x,
        len: 32 << 10,
        ..head
    });
    assert_eq!(events(&mut a), [], "all that x had fitted");
}

#[test]
fn flow_control_blocks_until_the_peer_says_more() {
    let (mut a, mut b) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, &bytes_of(id, true, 0, 10_000)).expect("room");
    assert_eq!(a.send_credit(), 4096);
    let flight = flush(&mut a, &mut b, Time::ZERO);
    assert!(a.flow_blocked() && !a.has_data());
    assert_eq!(
        (a.unsent_bytes(), a.unacked_bytes(), a.send_credit()),
        (10_000 - 4096, 4096, 0)
    );
    assert!(!b.has_control(), "nothing was read");
    // Lost bytes need no new credit.
    a.on_lost(&flight.0[0]);
    assert!(a.has_data() && a.flow_blocked());
    assert!(a.next_chunk(1200, true).is_some_and(|c| c.retransmission));
    assert_eq!(
        read_all(&mut b, Time::ZERO, id),
        bytes_of(id, true, 0, 4096)
    );
    let controls: Vec<_> = std::iter::from_fn(|| b.poll_control()).collect();
    let max = 4096 + 8192; // Read at once: the window has doubled.
    assert_eq!(
        controls,
        [
            Frame::MaxData { max },
            Frame::MaxStreamData { stream: id, max }
        ]
    );
    a.on_max_data(max);
    assert!(!a.has_data(), "the stream's own limit is still there");
    a.on_max_stream_data(id, max).expect("open");
    assert!(a.has_data() && !a.flow_blocked());
    // The latest value is repeated, an outdated one is not.
    b.on_control_lost(&Frame::MaxData { max: 4096 });
    assert!(!b.has_control());
    controls
        .iter()
        .for_each(|control| b.on_control_lost(control));
    assert_eq!(
        std::iter::from_fn(|| b.poll_control()).collect::<Vec<_>>(),
        controls
    );
}

#[test]
fn the_smaller_of_both_limits_counts() {
    // The stream's limit is the smaller one.
    let (mut a, mut b) = pair(small());
    let id = a.open().expect("allowed");
    a.on_max_data(10_000);
    assert_eq!(a.send_credit(), 10_000, "no stream is in use");
    write(&mut a, id, &[1; 5000]).expect("room");
    assert_eq!(a.send_credit(), 4096, "all is unsent");
    write(&mut b, id, b"x").expect_err("it isn't open there");
    let flight = flush(&mut a, &mut b, Time::ZERO);
    assert!(a.flow_blocked());
    a.on_max_stream_data(id, 6000).expect("open");
    while a.next_chunk(1200, true).is_some() {}
    assert_eq!(a.send_credit(), 1000, "all is under way");
    ack(&mut a, flight);
    a.on_acked(&StreamRange {
        stream: id,
        offset: 4096,
        len: 904,
        fin: false,
    });
    assert_eq!(a.send_credit(), 5000, "nothing is");
    // The send buffer's is: nothing can follow before some of it is acknowledged.
    let (mut a, _) = pair(small());
    let id = a.open().expect("allowed");
    a.on_max_data(1 << 20);
    a.on_max_stream_data(id, 1 << 20).expect("open");
    write(&mut a, id, &[1; 30 << 10]).expect("room");
    assert_eq!(a.send_credit(), 32 << 10);
    while a.next_chunk(1200, true).is_some() {}
    assert_eq!(a.send_credit(), 2 << 10);
    // The connection's is.
    let (mut a, _) = pair(small());
    let id = a.open().expect("allowed");
    a.on_max_stream_data(id, 1 << 20).expect("open");
    write(&mut a, id, &[1; 5000]).expect("room");
    while a.next_chunk(1200, true).is_some() {}
    assert_eq!(a.unacked_bytes(), 4096);
    assert!(a.flow_blocked() && !a.has_data());
}

#[test]
fn memory_is_what_waits_and_the_streams() {
    let (mut a, mut b) = pair(small());
    assert_eq!(a.memory(), 0);
    let id = a.open().expect("allowed");
    let each = a.memory();
    assert_eq!(each, size_of::<super::super::stream::Stream>());
    write(&mut a, id, &[1; 3000]).expect("room");
    let other = a.open().expect("allowed");
    assert_eq!(a.memory(), 2 * each + 3000);
    let flight = flush(&mut a, &mut b, Time::ZERO);
    assert_eq!(a.memory(), 2 * each + 3000, "nothing is acknowledged");
    assert_eq!(b.memory(), each + b.allocated());
    assert!(b.allocated() >= 3000);
    ack(&mut a, flight);
    assert_eq!(a.memory(), 2 * each);
    assert_eq!(b.bytes_read(), 0);
    assert_eq!(read_all(&mut b, Time::ZERO, id).len(), 3000);
    assert_eq!(b.bytes_read(), 3000);
    assert_eq!(b.most_unread(), 3000);
    // A connection that is over keeps nothing that waits, in either direction.
    write(&mut b, id, &[1; 3000]).expect("room");
    write(&mut a, other, &[1; 3000]).expect("room");
    flush(&mut a, &mut b, Time::ZERO);
    assert!(b.memory() >= 2 * each + 6000);
    assert_eq!(
        b.most_unread(),
        3000,
        "what was read before is no more in it"
    );
    b.discard();
    assert_eq!((b.memory(), b.allocated()), (2 * each, 0));
}

#[test]
fn a_limited_window_grows_no_further_and_shrinks() {
    for limit in [16 << 10, 1 << 10] {
        let (mut a, mut b) = pair(small());
        let id = a.open().expect("allowed");
        b.limit_window(limit);
        for _ in 0..20 {
            while write(&mut a, id, &[1; 4000]).is_ok() {}
            let flight = flush(&mut a, &mut b, Time::ZERO);
            ack(&mut a, flight);
            read_all(&mut b, Time::ZERO, id);
            flush(&mut b, &mut a, Time::ZERO);
        }
        assert_eq!(b.receive_window(), limit);
        assert_eq!(a.send_credit(), limit);
    }
}

#[test]
fn windows_grow_for_a_fast_reader_to_the_cap_and_not_for_a_slow_one() {
    for (pause, grown) in [(RTT, 64 << 10), (2 * RTT, 4 << 10)] {
        let (mut a, mut b) = pair(small());
        let id = a.open().expect("allowed");
        let (mut now, mut written) = (Time::ZERO, 0);
        for _ in 0..20 {
            while let Ok(n) = write(&mut a, id, &bytes_of(id, true, written, 4000)) {
                written += n as u64;
            }
            let flight = flush(&mut a, &mut b, now);
            ack(&mut a, flight);
            now += pause;
            read_all(&mut b, now, id);
            let flight = flush(&mut b, &mut a, now);
            ack(&mut b, flight);
            b.check_books();
        }
        assert_eq!(b.receive_window(), grown);
    }
}

/// No reader shows how fast it is while the first byte is missing.
#[test]
fn windows_grow_while_half_of_them_waits_for_a_missing_byte() {
    let (mut a, mut b) = pair(small());
    let id = a.open().expect("allowed");
    let sent = |b: &mut Streams, from: u64, to: u64| {
        let data = bytes_of(id, true, from, to - from);
        b.on_stream(Time::ZERO, RTT, id, from, &data, false)
            .expect("allowed");
        b.check_books();
        std::iter::from_fn(|| b.poll_control()).collect::<Vec<_>>()
    };
    assert_eq!(sent(&mut b, 1, 2048), []);
    let grown = |kib: u64| {
        let max = kib << 10;
        [
            Frame::MaxData { max },
            Frame::MaxStreamData { stream: id, max },
        ]
    };
    assert_eq!(sent(&mut b, 2048, 2049), grown(8));
    assert_eq!(sent(&mut b, 2049, 4096), []);
    assert_eq!(sent(&mut b, 4096, 5000), grown(16));
    assert_eq!(sent(&mut b, 5000, 16_384), grown(32));
    assert_eq!(sent(&mut b, 16_384, 32_768), grown(64));
    assert_eq!(sent(&mut b, 32_768, 65_536), [], "the cap");
    // What a reader could read is no reason.
    let (_, mut b) = pair(small());
    assert_eq!(sent(&mut b, 0, 4096), []);
}

#[test]
fn a_reset_reaches_the_reader_and_its_bytes_count_as_consumed() {
    let (mut a, mut b) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, &[1; 3000]).expect("room");
    flush(&mut a, &mut b, Time::ZERO);
    events(&mut b);
    assert_eq!(
        b.read(Time::ZERO, id, 100).map(|d| d.map(|d| d.len())),
        Ok(Some(100))
    );
    a.reset(id, 9).expect("open");
    assert_eq!(a.reset(id, 9), Err(WriteError::Closed));
    assert_eq!((a.unacked_bytes(), a.unsent_bytes()), (0, 0));
    let (_, controls) = flush(&mut a, &mut b, Time::ZERO);
    assert_eq!(
        controls,
        [Frame::ResetStream {
            stream: id,
            code: 9,
            final_size: 3000
        }]
    );
    a.on_control_lost(&controls[0]);
    assert_eq!(flush(&mut a, &mut b, Time::ZERO).1, controls);
    a.on_control_acked(&controls[0]);
    a.on_control_lost(&controls[0]);
    assert!(!a.has_control());
    assert_eq!(b.poll_control(), Some(Frame::MaxData { max: 3000 + 4096 }));
    assert_eq!(b.read(Time::ZERO, id, 100), Err(ReadError::Reset(9)));
    assert_eq!(b.read(Time::ZERO, id, 100), Err(ReadError::Closed));
    // The other direction goes on.
    write(&mut b, id, b"still here").expect("room");
    flush(&mut b, &mut a, Time::ZERO);
    assert_eq!(read_all(&mut a, Time::ZERO, id), b"still here");
}

#[test]
fn a_stop_resets_the_sender_and_the_writer_hears_why() {
    let (mut a, mut b) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, &[1; 9000]).expect("room");
    flush(&mut a, &mut b, Time::ZERO);
    b.stop(id, 5).expect("open");
    assert_eq!(b.read(Time::ZERO, id, 1), Err(ReadError::Closed));
    assert_eq!(b.allocated(), 0);
    let flight = flush(&mut b, &mut a, Time::ZERO);
    assert_eq!(
        flight.1.last(),
        Some(&Frame::StopSending {
            stream: id,
            code: 5
        })
    );
    assert_eq!(events(&mut a), [StreamEvent::Stopped { id, code: 5 }]);
    let flight = flush(&mut a, &mut b, Time::ZERO);
    assert_eq!(
        flight.1,
        [Frame::ResetStream {
            stream: id,
            code: 5,
            final_size: 4096
        }]
    );
    ack(&mut a, flight);
    b.on_control_lost(&Frame::StopSending {
        stream: id,
        code: 5,
    });
    assert!(!b.has_control(), "the reset has answered it");
    assert_eq!(write(&mut a, id, b"x"), Err(WriteError::Stopped(5)));
    assert_eq!(a.finish(id), Err(WriteError::Stopped(5)));
}

#[test]
fn the_reader_gets_large_pieces() {
    let config = StreamsConfig {
        initial_receive_window: 1 << 20,
        max_receive_window: 1 << 20,
        ..small()
    };
    let (_, mut b) = pair(config);
    let id = StreamId(0);
    // Two paths, the second of which runs ahead.
    let frames: Vec<u64> = (0..300).map(|i| i * 1200).collect();
    let (even, odd): (Vec<_>, Vec<_>) = frames.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
    for offset in odd.into_iter().chain(even) {
        if offset == 0 {
            assert_eq!(b.most_unread(), 300 * 1200, "holes count");
        }
        b.on_stream(
            Time::ZERO,
            RTT,
            id,
            offset,
            &bytes_of(id, true, offset, 1200),
            false,
        )
        .expect("allowed");
    }
    let mut sizes = vec![];
    let mut offset = 0;
    while let Ok(Some(data)) = b.read(Time::ZERO, id, usize::MAX) {
        assert_eq!(data, bytes_of(id, true, offset, data.len() as u64));
        offset += data.len() as u64;
        sizes.push(data.len());
    }
    assert_eq!(
        sizes,
        [65536, 65536, 65536, 65536, 65536, 300 * 1200 - 5 * 65536]
    );
}

#[test]
fn a_reader_is_told_once_until_it_waits_again() {
    let (_, mut b) = pair(small());
    let id = StreamId(0);
    let send = |b: &mut Streams, offset: u64, data: &[u8], fin| {
        b.on_stream(Time::ZERO, RTT, id, offset, data, fin)
            .expect("allowed");
        events(b)
    };
    assert_eq!(send(&mut b, 1, b"b", false), [StreamEvent::Opened]);
    assert_eq!(send(&mut b, 0, b"a", false), [StreamEvent::Readable(id)]);
    assert_eq!(send(&mut b, 2, b"c", false), []);
    assert_eq!(read_all(&mut b, Time::ZERO, id), b"abc");
    assert_eq!(send(&mut b, 0, b"abc", false), []);
    assert_eq!(send(&mut b, 3, b"", true), [StreamEvent::Readable(id)]);
    assert_eq!(b.read(Time::ZERO, id, 9), Ok(None));
}

/// Beside one that has much to send, a stream with a few bytes waits for no turn where they arrive
/// soonest, and doesn't go where they would arrive late.
#[test]
fn few_bytes_go_where_they_arrive_soonest() {
    let config = StreamsConfig {
        initial_receive_window: 1 << 20,
        max_receive_window: 1 << 20,
        send_buffer: 1 << 20,
        ..small()
    };
    let (mut a, _) = pair(config);
    let (bulk, other, typed) = (
        a.open().expect("allowed"),
        a.open().expect("allowed"),
        a.open().expect("allowed"),
    );
    write(&mut a, bulk, &[0; 50_000]).expect("room");
    write(&mut a, other, &[0; 50_000]).expect("room");
    let next = |a: &mut Streams, soonest| a.next_chunk(1200, soonest).map(|c| c.range.stream);
    write(&mut a, typed, b"ls").expect("room");
    for _ in 0..3 {
        assert_ne!(next(&mut a, false), Some(typed), "on a slower path");
    }
    assert_eq!(next(&mut a, true), Some(typed), "before the others");
    // However much is typed, others have every other turn.
    for _ in 0..10 {
        write(&mut a, typed, b"ls").expect("room");
        assert_ne!(next(&mut a, true), Some(typed));
        assert_eq!(next(&mut a, true), Some(typed));
    }
    // A stream with much to say takes turns with the others, wherever.
    write(&mut a, typed, &[0; 5000]).expect("room");
    let turns: Vec<_> = (0..3).filter_map(|_| next(&mut a, false)).collect();
    assert!(turns.contains(&typed), "{turns:?}");
    a.check_books();
}

#[test]
fn few_bytes_that_are_all_there_is_go_anywhere() {
    let (mut a, _) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, b"ls").expect("room");
    assert_eq!(a.next_chunk(1200, false).map(|c| c.range.len), Some(2));
    assert!(!a.has_data());
}
