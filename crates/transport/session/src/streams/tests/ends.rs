//! Ends, resets and stops: lost, late, and after one another.

use super::*;

const ZERO: Time = Time::ZERO;

fn controls(streams: &mut Streams) -> Vec<Frame<'static>> {
    std::iter::from_fn(|| streams.poll_control()).collect()
}

/// Takes whatever the side wants to send and throws it away.
fn drop_chunks(streams: &mut Streams) {
    while streams.next_chunk(1200, true).is_some() {}
}

#[test]
fn a_lost_stop_is_said_again_until_the_peer_has_ended() {
    let (mut a, mut b) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, &[1; 100]).expect("room");
    flush(&mut a, &mut b, ZERO);
    b.stop(id, 5).expect("open");
    let code = 5;
    let stop = Frame::StopSending { stream: id, code };
    assert_eq!(controls(&mut b), std::slice::from_ref(&stop));
    b.on_control_lost(&stop);
    assert_eq!(controls(&mut b), std::slice::from_ref(&stop));
    assert_eq!(controls(&mut b), [], "once");
    // The peer ended the stream before it heard of it.
    b.on_stream(ZERO, RTT, id, 100, &[], true).expect("valid");
    b.on_control_lost(&stop);
    assert_eq!(controls(&mut b), []);
}

#[test]
fn a_stopped_stream_is_kept_until_the_stop_has_left_and_the_end_is_known() {
    // Whether the peer has said where the stream ends before the application stops it.
    for ended in [false, true] {
        let (mut a, mut b) = pair(small());
        let id = a.open().expect("allowed");
        write(&mut a, id, b"question").expect("room");
        flush(&mut a, &mut b, ZERO);
        b.finish(id).expect("open");
        let flight = flush(&mut b, &mut a, ZERO);
        ack(&mut b, flight);
        if ended {
            b.on_stream(ZERO, RTT, id, 500, b"x", true).expect("valid");
        }
        b.stop(id, 5).expect("open");
        assert_eq!(b.open_streams(), 1, "the stop is to be said");
        assert!(b.has_control());
        let code = 5;
        assert!(controls(&mut b).contains(&Frame::StopSending { stream: id, code }));
        assert_eq!(b.open_streams(), usize::from(!ended));
        b.on_reset(id, 5, 501).expect("valid");
        assert_eq!(b.open_streams(), 0);
        b.check_books();
    }
}

#[test]
fn what_came_in_full_is_read_despite_a_reset_and_needs_no_stop() {
    for (from, whole) in [(1000, true), (1001, false)] {
        let arrived = || {
            let (mut a, mut b) = pair(small());
            let id = a.open().expect("allowed");
            b.on_stream(ZERO, RTT, id, 0, &[1; 1000], false)
                .expect("valid");
            let rest = vec![1; 3000 - from as usize];
            b.on_stream(ZERO, RTT, id, from, &rest, true)
                .expect("valid");
            (b, id)
        };
        let (mut b, id) = arrived();
        b.on_reset(id, 9, 3000).expect("valid");
        let read = b.read(ZERO, id, usize::MAX);
        if whole {
            assert_eq!(read.map(|data| data.map(|d| d.len())), Ok(Some(3000)));
            assert_eq!(b.read(ZERO, id, 1), Ok(None));
        } else {
            assert_eq!(read, Err(ReadError::Reset(9)));
        }
        let (mut b, id) = arrived();
        b.stop(id, 5).expect("open");
        let stops = |f: &Frame<'_>| matches!(f, Frame::StopSending { .. });
        assert_eq!(controls(&mut b).iter().any(stops), !whole);
    }
}

#[test]
fn a_lost_end_is_said_again_alone() {
    let (mut a, _) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, &[1; 100]).expect("room");
    let data = a.next_chunk(1200, true).expect("data").range;
    a.finish(id).expect("open");
    assert_eq!(a.finish(id), Err(WriteError::Closed));
    assert_eq!(write(&mut a, id, b"more"), Err(WriteError::Closed));
    let end = a.next_chunk(1200, true).expect("the end").range;
    assert_eq!((end.offset, end.len, end.fin), (100, 0, true));
    a.on_lost(&end);
    let again = a.next_chunk(1200, true).expect("the end was lost");
    assert!(again.retransmission && again.range == end);
    assert!(!a.has_data());
    // Lost bytes don't bring an end with them that is under way.
    a.on_lost(&StreamRange { len: 50, ..data });
    let again = a.next_chunk(1200, true).expect("half was lost").range;
    assert_eq!((again.offset, again.len, again.fin), (0, 50, false));
    assert!(!a.has_data());
    a.on_acked(&StreamRange { len: 50, ..data });
    let lent = a.chunk(&end, 1200).expect("bytes alone aren't the end");
    assert_eq!(lent.range, end);
    a.on_acked(&end);
    assert_eq!(a.chunk(&end, 1200), None);
    a.on_lost(&end);
    assert!(!a.has_data(), "the other copy has arrived");
    a.on_acked(&data);
    assert_eq!(events(&mut a), [StreamEvent::Finished(id)]);
}

#[test]
fn a_stop_after_the_end_or_a_reset_changes_nothing() {
    let (mut a, mut b) = pair(small());
    let (done, cut) = (a.open().expect("allowed"), a.open().expect("allowed"));
    for id in [done, cut] {
        write(&mut a, id, &[1; 100]).expect("room");
    }
    a.finish(done).expect("open");
    let flight = flush(&mut a, &mut b, ZERO);
    ack(&mut a, flight);
    a.reset(cut, 9).expect("open");
    assert_eq!(events(&mut a), [StreamEvent::Finished(done)]);
    a.on_stop(done, 5).expect("valid");
    a.on_stop(cut, 5).expect("valid");
    assert_eq!(events(&mut a), []);
    let reset = Frame::ResetStream {
        stream: cut,
        code: 9,
        final_size: 100,
    };
    assert_eq!(controls(&mut a), [reset]);
}

/// The application that resets a stream which the peer has stopped needn't know of it.
#[test]
fn a_reset_after_the_peers_stop_is_told_of_it_by_nothing_and_once() {
    let (mut a, _) = pair(small());
    let id = a.open().expect("allowed");
    write(&mut a, id, &[1; 100]).expect("room");
    drop_chunks(&mut a);
    a.on_stop(id, 5).expect("valid");
    assert_eq!(a.reset(id, 9), Ok(()));
    assert_eq!(a.reset(id, 9), Err(WriteError::Closed));
    let [Frame::ResetStream { code: 5, .. }] = controls(&mut a)[..] else {
        panic!("the peer's own code goes back");
    };
}

#[test]
fn a_writer_that_waits_hears_of_a_stop_and_not_of_room() {
    let config = StreamsConfig {
        initial_receive_window: 1 << 20,
        max_receive_window: 1 << 20,
        ..small()
    };
    let (mut a, _) = pair(config);
    let (id, other) = (a.open().expect("allowed"), a.open().expect("allowed"));
    let all = vec![1; 100_000];
    assert_eq!(write(&mut a, id, &all), Ok(32 << 10));
    assert_eq!(write(&mut a, other, &all), Ok(4 << 10));
    a.on_stop(id, 5).expect("valid");
    assert_eq!(
        events(&mut a),
        [
            StreamEvent::Stopped { id, code: 5 },
            StreamEvent::Writable(other)
        ]
    );
}
