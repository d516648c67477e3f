//! Our sender against a receiver made by hand.

use super::script::name;
use super::*;

/// Our sender. It reports success only to a receiver that has said that all of it is there, and
/// leaves out nothing but what the receiver has.
pub(super) fn sender(mut choices: Choices<'_>) {
    let around = directory();
    let file = around.path().join("f");
    let size = match choices.byte() {
        255 => some_groups(&mut choices),
        _ => choices.number().min(100_000),
    };
    let content = version(size, 7);
    fs::write(&file, &content).expect("room");
    let right = Totals {
        entries: 1,
        files: 1,
        bytes: size,
        ..Totals::default()
    };
    let group = |index: u64| match content.chunks(GROUP as usize).nth(index as usize) {
        Some(group) => group_hash(size, index, group),
        None => Digest([9; 32]),
    };
    let (mut bytes, mut done) = (Vec::new(), false);
    // Hashes told, and whether there are no more.
    let (mut told, mut ended) = (Vec::new(), false);
    let mut say = |message: Message| message.encode(&mut bytes);
    let how = choices.byte();
    let dry_run = how >= 240;
    if how & 7 > 0 {
        say(Message::Hello(Hello::new(Role::Receiver)));
    }
    for _ in 0..MOST_STEPS {
        if choices.is_empty() {
            break;
        }
        let number = choices.number();
        let totals = Totals {
            bytes: number,
            ..right
        };
        say(match choices.below(17) {
            16 => Message::Deleted({
                let names = (0..choices.below(3)).map(|_| name(&mut choices));
                names
                    .filter_map(|name| SafeName::parse(&name).ok())
                    .collect()
            }),
            0 | 1 => Message::Accept,
            2 | 3 => Message::Saved(Saved {
                files: number,
                renamed: Vec::new(),
            }),
            4 => Message::Saved(Saved {
                files: 1,
                renamed: SafeName::parse(&name(&mut choices))
                    .map(|name| Renamed { file: number, name })
                    .into_iter()
                    .collect(),
            }),
            5 | 6 => {
                done = true;
                Message::Done {
                    totals: right,
                    altered: 0,
                }
            }
            7 => {
                done |= totals == right;
                Message::Done { totals, altered: 0 }
            }
            8 => Message::Failure(Failure::new(FailureCode::Write, "no room")),
            9 => Message::Hello(Hello::new(Role::Sender)),
            10 | 11 => Message::Wants(match number {
                0..64 => vec![2],
                64..100 => vec![1],
                _ => vec![number as u8 & 0x55; choices.below(3)],
            }),
            12 => {
                ended = true;
                Message::Basis(Vec::new())
            }
            _ => {
                let next = told.len() as u64..told.len() as u64 + number % 2000;
                let mut hashes: Vec<_> = next.map(group).collect();
                if let Some(last) = hashes.last_mut().filter(|_| choices.byte() & 3 == 0) {
                    last.0[0] ^= 1;
                }
                ended |= hashes.is_empty();
                if !ended {
                    told.extend_from_slice(&hashes);
                }
                Message::Basis(hashes)
            }
        });
    }
    let mut sources = Sources::new([&file]).expect("it is there");
    if dry_run {
        sources = sources.dry_run();
    }
    let (ours, theirs) = duplex(64 << 10);
    let sending = send(split(theirs), sources, Progress::new());
    let (heard, result) = run(sending, ours, &bytes);
    assert!(result.is_err() || done, "nobody has said so: {result:?}");
    follow(&heard, &content, |index| {
        told.get(index as usize) == Some(&group(index))
    });
    if let Ok(summary) = &result {
        assert!(summary.kept.bytes <= size);
    }
}

/// Holds what a sender said of one file to its content.
fn follow(mut heard: &[u8], content: &[u8], is_there: impl Fn(u64) -> bool) {
    let mut at = 0;
    while let Some((header, rest)) = heard.split_first_chunk() {
        let header = Header::decode(*header).expect("a header");
        let Some((body, rest)) = rest.split_at_checked(header.len) else {
            return;
        };
        heard = rest;
        if header.kind == FrameKind::Data {
            let right = content.get(at..at + body.len());
            assert!(
                right.is_some_and(|right| right == body),
                "other content at {at}"
            );
            at += body.len();
            continue;
        }
        match Message::decode(header.kind, body).expect("a message") {
            Message::Kept(kept) => {
                for _ in 0..kept {
                    let index = at as u64 / GROUP;
                    assert!(
                        (at as u64).is_multiple_of(GROUP) && is_there(index),
                        "kept at {at}"
                    );
                    assert!(index < groups(content.len() as u64));
                    at = content.len().min(at + GROUP as usize);
                }
            }
            Message::Trailer(digest) => {
                assert_eq!((digest.0, at), (hash(content), content.len()));
            }
            Message::LeftOut(cause) => panic!("nothing has happened to it: {cause}"),
            _ => {}
        }
    }
}
