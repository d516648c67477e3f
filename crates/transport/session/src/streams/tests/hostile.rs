//! A peer that breaks every rule.

use proptest::prelude::*;

use super::*;

fn listener() -> Streams {
    pair(small()).1
}

fn data(
    streams: &mut Streams,
    id: u64,
    offset: u64,
    len: usize,
    fin: bool,
) -> Result<(), StreamsError> {
    streams.on_stream(Time::ZERO, RTT, StreamId(id), offset, &vec![0; len], fin)
}

#[test]
fn offsets_beyond_the_limits_are_refused_before_anything_is_stored() {
    let mut b = listener();
    let stream = StreamId(0);
    for offset in [4096, 4097, 1 << 32, MAX_OFFSET - 1] {
        let refused = StreamsError::StreamFlowControl {
            stream,
            end: offset + 1,
            limit: 4096,
        };
        assert_eq!(data(&mut b, 0, offset, 1, false), Err(refused));
    }
    for offset in [MAX_OFFSET, u64::MAX - 1, u64::MAX] {
        let refused = StreamsError::OffsetOverflow {
            stream,
            offset,
            len: 1,
        };
        assert_eq!(data(&mut b, 0, offset, 1, false), Err(refused));
    }
    let refused = StreamsError::OffsetOverflow {
        stream,
        offset: u64::MAX,
        len: 0,
    };
    assert_eq!(b.on_reset(stream, 0, u64::MAX), Err(refused));
    assert_eq!(b.allocated(), 0);
    assert_eq!(
        data(&mut b, 0, 4096, 1, false).map_err(|e| e.to_string()),
        Err("stream 0: data up to offset 4097 passes the stream's limit of 4096".to_owned())
    );
}

#[test]
fn the_connection_limit_counts_all_streams() {
    let mut b = listener();
    data(&mut b, 0, 4095, 1, false).expect("allowed");
    let refused = StreamsError::ConnectionFlowControl {
        stream: StreamId(4),
        total: 4097,
        limit: 4096,
    };
    assert_eq!(data(&mut b, 4, 0, 1, false), Err(refused));
    assert_eq!(b.on_reset(StreamId(4), 0, 1), Err(refused));
    data(&mut b, 4, 0, 0, true).expect("no bytes");
    data(&mut b, 0, 0, 4095, false).expect("counted before");
}

#[test]
fn final_sizes_must_agree() {
    let mut b = listener();
    let stream = StreamId(0);
    let refused = |known, claimed| {
        Err(StreamsError::FinalSize {
            stream,
            known,
            claimed,
        })
    };
    data(&mut b, 0, 10, 10, false).expect("allowed");
    assert_eq!(data(&mut b, 0, 0, 19, true), refused(20, 19));
    assert_eq!(b.on_reset(stream, 1, 19), refused(20, 19));
    data(&mut b, 0, 20, 5, true).expect("allowed");
    assert_eq!(data(&mut b, 0, 25, 1, false), refused(25, 26));
    assert_eq!(data(&mut b, 0, 0, 24, true), refused(25, 24));
    assert_eq!(b.on_reset(stream, 1, 26), refused(25, 26));
    b.on_reset(stream, 1, 25).expect("agrees");
    assert_eq!(data(&mut b, 0, 0, 26, false), refused(25, 26));
}

#[test]
fn streams_that_cannot_be_are_refused_and_closed_ones_ignored() {
    let mut b = listener();
    for id in [1, 5, u64::MAX - 2] {
        let refused = Err(StreamsError::NeverOpened {
            stream: StreamId(id),
        });
        assert_eq!(data(&mut b, id, 0, 1, false), refused);
        assert_eq!(b.on_reset(StreamId(id), 0, 0), refused);
        assert_eq!(b.on_stop(StreamId(id), 0), refused);
        assert_eq!(b.on_max_stream_data(StreamId(id), 0), refused);
    }
    for id in [16, u64::MAX - 3] {
        let refused = Err(StreamsError::StreamLimit {
            stream: StreamId(id),
            limit: 4,
        });
        assert_eq!(data(&mut b, id, 0, 1, false), refused);
        assert_eq!(b.on_stop(StreamId(id), 0), refused);
    }
    let wrong_way = |id| {
        Err(StreamsError::Direction {
            stream: StreamId(id),
        })
    };
    assert_eq!(b.on_stop(StreamId(2), 0), wrong_way(2));
    assert_eq!(b.on_max_stream_data(StreamId(2), 0), wrong_way(2));
    assert_eq!(data(&mut b, 3, 0, 1, false), wrong_way(3));
    assert_eq!(b.on_reset(StreamId(3), 0, 0), wrong_way(3));
    assert_eq!((b.open_streams(), b.poll_event()), (0, None));

    let id = StreamId(0);
    data(&mut b, 0, 0, 0, true).expect("allowed");
    assert_eq!(b.read(Time::ZERO, id, 1), Ok(None));
    b.reset(id, 0).expect("open");
    let reset = b.poll_control().expect("due");
    b.on_control_acked(&reset);
    assert_eq!(b.open_streams(), 0);
    assert_eq!(b.accept(), None, "closed before it was accepted");
    data(&mut b, 0, 5, 500, false).expect("ignored");
    b.on_reset(id, 3, 77).expect("ignored");
    b.on_stop(id, 3).expect("ignored");
    b.on_max_stream_data(id, 3).expect("ignored");
    assert_eq!((b.open_streams(), b.received), (0, 0));
}

#[test]
fn one_byte_fragments_with_gaps_cost_no_more_than_the_window() {
    let window = 8 << 20;
    let config = StreamsConfig {
        initial_receive_window: window,
        max_receive_window: window,
        ..small()
    };
    let (_, mut b) = pair(config);
    for offset in (0..window / 2).rev().map(|i| 2 * i + 1) {
        data(&mut b, 0, offset, 1, false).expect("allowed");
    }
    assert!(
        b.allocated() as u64 <= (window + 65536) * 9 / 8,
        "{}",
        b.allocated()
    );
    for offset in (0..window).step_by(2) {
        data(&mut b, 0, offset, 1, false).expect("allowed");
    }
    let read = std::iter::from_fn(|| b.read(Time::ZERO, StreamId(0), usize::MAX).ok().flatten());
    assert_eq!(read.map(|d| d.len() as u64).sum::<u64>(), window);
    assert_eq!(b.allocated(), 0);
}

/// Frames of `len` bytes, `stride` apart, from the window's end to its beginning or the other way:
/// what they take at most, per byte of theirs.
fn cost(window: u64, stride: u64, len: usize, backwards: bool) -> f64 {
    let config = StreamsConfig {
        initial_receive_window: window,
        max_receive_window: window,
        ..small()
    };
    let (_, mut b) = pair(config);
    let last = (window - len as u64 - 1) / stride;
    let (mut wire, mut most) = (0, 0.0f64);
    for n in 0..=last {
        let offset = 1 + stride * if backwards { last - n } else { n };
        data(&mut b, 0, offset, len, false).expect("allowed");
        wire += overhead(StreamId(0), offset, len) + len;
        most = most.max(b.allocated() as f64 / wire as f64);
    }
    most
}

/// A byte behind a hole takes no block: memory follows what was received.
#[test]
fn pieces_with_gaps_cost_little_more_than_their_frames() {
    for (stride, len) in [
        (2, 1),
        (16, 1),
        (300, 100),
        (1400, 1),
        (1400, 1300),
        (65536, 1),
        (65536, 1300),
        (65536, 60_000),
        (100_000, 40_000),
    ] {
        for backwards in [false, true] {
            let cost = cost(4 << 20, stride, len, backwards);
            assert!(cost <= 9.0, "{len} of {stride}, {backwards}: {cost}");
        }
    }
}

/// What a stream has earned by moving data is bounded too.
#[test]
fn what_a_fast_stream_may_waste_is_bounded() {
    let window = 4 << 20;
    let config = StreamsConfig {
        initial_receive_window: window,
        max_receive_window: window,
        ..small()
    };
    let (_, mut b) = pair(config);
    let id = StreamId(0);
    for n in 0..80 {
        data(&mut b, 0, n * 50_000, 50_000, false).expect("allowed");
        while let Ok(Some(_)) = b.read(Time::ZERO, id, usize::MAX) {}
    }
    for offset in (0..)
        .map(|n| 4_000_000 + 65536 * n)
        .take_while(|at| *at < window)
    {
        data(&mut b, 0, offset + 1, 1, false).expect("allowed");
    }
    b.poll_control();
    let allocated = b.allocated();
    assert!((65536..320 << 10).contains(&allocated), "{allocated}");
    b.check_books();
}

#[test]
fn the_first_of_two_contradicting_copies_counts() {
    let mut b = listener();
    let id = StreamId(0);
    for (offset, data) in [
        (2, &b"CD"[..]),
        (0, b"aXXX"),
        (1, b"YYYYef"),
        (0, b"ZZZZZZZZ"),
    ] {
        b.on_stream(Time::ZERO, RTT, id, offset, data, false)
            .expect("allowed");
    }
    let read = b.read(Time::ZERO, id, 100).expect("there").expect("bytes");
    assert_eq!(&read[..], b"aXCDYefZ");
}

/// Any frame, mostly near the limits.
#[derive(Clone, Debug)]
enum Any {
    Data {
        id: u64,
        offset: u64,
        len: usize,
        fin: bool,
    },
    Reset {
        id: u64,
        code: u64,
        size: u64,
    },
    Stop {
        id: u64,
    },
    MaxData(u64),
    MaxStreamData {
        id: u64,
        max: u64,
    },
    MaxStreams(StreamKind, u64),
    Read {
        id: u64,
        max: usize,
    },
    Write {
        id: u64,
        len: usize,
    },
    Send {
        max: usize,
        acked: bool,
    },
    HearStop {
        id: u64,
    },
    Finish {
        id: u64,
    },
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..5000,
        2 => 0u64..200_000,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(MAX_OFFSET),
    ]
}

fn id() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..18, 1 => any::<u64>()]
}

fn frame() -> impl Strategy<Value = Any> {
    prop_oneof![
        6 => (id(), number(), 0usize..3000, any::<bool>()).prop_map(|(id, offset, len, fin)| {
            let fin = fin && offset % 4 == 0;
            Any::Data { id, offset, len, fin }
        }),
        1 => (id(), any::<u64>(), number())
            .prop_map(|(id, code, size)| Any::Reset { id, code, size }),
        1 => id().prop_map(|id| Any::Stop { id }),
        1 => number().prop_map(Any::MaxData),
        1 => (id(), number()).prop_map(|(id, max)| Any::MaxStreamData { id, max }),
        1 => (proptest::sample::select(&StreamKind::ALL), number())
            .prop_map(|(kind, count)| Any::MaxStreams(kind, count)),
        3 => (id(), 0usize..5000).prop_map(|(id, max)| Any::Read { id, max }),
        2 => (id(), 0usize..9000).prop_map(|(id, len)| Any::Write { id, len }),
        2 => (0usize..2000, any::<bool>()).prop_map(|(max, acked)| Any::Send { max, acked }),
        1 => id().prop_map(|id| Any::HearStop { id }),
        1 => id().prop_map(|id| Any::Finish { id }),
    ]
}

proptest! {
    #[test]
    fn nothing_panics_and_memory_stays_bounded(frames in prop::collection::vec(frame(), 0..200)) {
        let mut b = listener();
        let _ = (b.open(), b.open(), b.open_uni());
        for frame in frames {
            let before = b.received;
            let refused = match frame {
                Any::Data { id, offset, len, fin } => data(&mut b, id, offset, len, fin).is_err(),
                Any::Reset { id, code, size } => b.on_reset(StreamId(id), code, size).is_err(),
                Any::Stop { id } => b.on_stop(StreamId(id), 1).is_err(),
                Any::MaxData(max) => { b.on_max_data(max); false }
                Any::MaxStreamData { id, max } => b.on_max_stream_data(StreamId(id), max).is_err(),
                Any::MaxStreams(kind, count) => { b.on_max_streams(kind, count); false }
                Any::Read { id, max } => b.read(Time::ZERO, StreamId(id), max).is_err(),
                Any::Write { id, len } => write(&mut b, StreamId(id), &vec![0; len]).is_err(),
                Any::HearStop { id } => b.stop(StreamId(id), 2).is_err(),
                Any::Finish { id } => b.finish(StreamId(id)).is_err(),
                Any::Send { max, acked } => {
                    match (b.next_chunk(max, true), b.poll_control()) {
                        (Some(chunk), _) if acked => b.on_acked(&chunk.range),
                        (Some(chunk), _) => b.on_lost(&chunk.range),
                        (None, Some(control)) if acked => b.on_control_acked(&control),
                        (None, Some(control)) => b.on_control_lost(&control),
                        (None, None) => {}
                    }
                    false
                }
            };
            if refused {
                prop_assert_eq!(b.received, before);
            }
            b.check_books();
            prop_assert!(b.received <= b.window.limit());
            prop_assert!(b.open_streams() <= 3 + 2 * 4);
        }
    }
}
