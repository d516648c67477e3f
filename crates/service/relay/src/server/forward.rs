//! The forwarding loop: takes datagrams from receive buffers and sends them in batches.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::time::Duration;

use quinn_udp::{EcnCodepoint, RecvMeta};

use super::socket::{BUFFER, BUFFERS, MAX_RUN, MAX_RUN_BYTES, Socket};
use crate::{Action, Relay};

/// A relay with its buffers.
pub(super) struct Forwarder {
    relay: Relay,
    storage: Box<[u8]>,
    metas: [RecvMeta; BUFFERS],
}

/// Where it sends datagrams.
trait Out {
    /// Sends datagrams of `segment` bytes, the last of which may be shorter. Returns how many bytes
    /// were lost.
    fn send(
        &self,
        to: SocketAddr,
        ecn: Option<EcnCodepoint>,
        contents: &[u8],
        segment: usize,
    ) -> usize;
}

impl Out for [Socket] {
    fn send(
        &self,
        to: SocketAddr,
        ecn: Option<EcnCodepoint>,
        contents: &[u8],
        segment: usize,
    ) -> usize {
        let socket = self
            .iter()
            .find(|socket| socket.address().is_ipv4() == to.is_ipv4());
        match socket {
            Some(socket) => socket.send(to, ecn, contents, segment),
            None => contents.len(),
        }
    }
}

/// Datagrams that the kernel coalesced: from one sender, and of one size except for the last.
struct Received<'a> {
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    bytes: &'a mut [u8],
    stride: usize,
}

/// Datagrams to one destination without their headers, one behind the other in the buffer in which
/// they arrived.
#[derive(Copy, Clone)]
struct Run {
    to: SocketAddr,
    start: usize,
    end: usize,
    segment: usize,
    count: usize,
}

impl Run {
    /// Whether a datagram of `len` bytes to `to` can leave with this run. None may follow a shorter
    /// one.
    fn takes(&self, to: SocketAddr, len: usize) -> bool {
        self.to == to
            && len <= self.segment
            && self.end - self.start == self.segment * self.count
            && self.count < MAX_RUN
            && self.end - self.start + len <= MAX_RUN_BYTES
    }
}

impl Forwarder {
    pub(super) fn new(relay: Relay) -> Self {
        Self {
            relay,
            storage: vec![0; BUFFERS * BUFFER].into_boxed_slice(),
            metas: [RecvMeta::default(); BUFFERS],
        }
    }

    pub(super) fn relay(&self) -> &Relay {
        &self.relay
    }

    pub(super) fn relay_mut(&mut self) -> &mut Relay {
        &mut self.relay
    }

    /// Reads once from socket `at` and handles everything read. Returns whether there may be more.
    pub(super) fn serve(&mut self, sockets: &[Socket], at: usize, now: Duration) -> bool {
        let Self {
            relay,
            storage,
            metas,
        } = self;
        let mut chunks = storage.chunks_exact_mut(BUFFER);
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        // Errors concern earlier datagrams; there is nobody to tell.
        let Ok(count) = sockets[at].receive(&mut slices, metas) else {
            return false;
        };
        for (meta, slice) in metas.iter().zip(&mut slices).take(count) {
            let received = Received {
                from: meta.addr,
                ecn: meta.ecn,
                bytes: &mut slice[..meta.len.min(BUFFER)],
                stride: meta.stride.max(1),
            };
            pass(relay, now, received, sockets);
        }
        count == BUFFERS
    }
}

/// Forwards what passes the checks, and answers.
fn pass(relay: &mut Relay, now: Duration, received: Received<'_>, out: &(impl Out + ?Sized)) {
    let Received {
        from,
        ecn,
        bytes,
        stride,
    } = received;
    let mut run: Option<Run> = None;
    let mut at = 0;
    while at < bytes.len() {
        let end = bytes.len().min(at + stride);
        match relay.handle(now, from, &bytes[at..end]) {
            Action::Drop(_) => {}
            Action::Reply(reply) => {
                out.send(from, None, reply.as_bytes(), reply.as_bytes().len());
            }
            Action::Forward {
                to,
                header_len,
                notice,
            } => {
                let (start, len) = (at + header_len, end - at - header_len);
                match &mut run {
                    Some(run) if run.takes(to, len) => {
                        bytes.copy_within(start..end, run.end);
                        run.end += len;
                        run.count += 1;
                    }
                    _ => {
                        let next = Run {
                            to,
                            start,
                            end,
                            segment: len,
                            count: 1,
                        };
                        flush(relay, run.replace(next), bytes, ecn, out);
                    }
                }
                if let Some(notice) = notice {
                    out.send(from, None, notice.as_bytes(), notice.as_bytes().len());
                }
            }
        }
        at = end;
    }
    flush(relay, run, bytes, ecn, out);
}

fn flush(
    relay: &mut Relay,
    run: Option<Run>,
    bytes: &[u8],
    ecn: Option<EcnCodepoint>,
    out: &(impl Out + ?Sized),
) {
    let Some(run) = run else { return };
    let lost = out.send(run.to, ecn, &bytes[run.start..run.end], run.segment);
    if lost > 0 {
        relay.lost(lost.div_ceil(run.segment) as u64, lost as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use manyway_wire::relay::{Grant, Hello, Mint, Minted, Nonce, Peer, RateClass, RelayReply};
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;
    use crate::keys::{public_key, sign};
    use crate::{Config, Keys, Reason};

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    type Sent = (SocketAddr, Option<EcnCodepoint>, Vec<u8>, usize);

    #[derive(Default)]
    struct Log(RefCell<Vec<Sent>>);

    impl Out for Log {
        fn send(
            &self,
            to: SocketAddr,
            ecn: Option<EcnCodepoint>,
            contents: &[u8],
            segment: usize,
        ) -> usize {
            self.0
                .borrow_mut()
                .push((to, ecn, contents.to_vec(), segment));
            0
        }
    }

    /// A socket that is full.
    struct Full;

    impl Out for Full {
        fn send(&self, _: SocketAddr, _: Option<EcnCodepoint>, contents: &[u8], _: usize) -> usize {
            contents.len()
        }
    }

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn relay() -> Relay {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let keys = Keys::generate(NOW, &mut rng);
        Relay::new(Config::default(), keys, &mut rng)
    }

    fn grant(relay: &mut Relay, from: &str, to: &str) -> Grant {
        let nonce = Nonce([0; 8]);
        let mut hello = |from: &str| {
            let hello = Hello {
                nonce,
                relay: relay.id(),
            };
            match relay.handle(NOW, addr(from), &hello.to_bytes()) {
                Action::Reply(reply) => match RelayReply::decode(reply.as_bytes()) {
                    Ok(RelayReply::Consent(reply)) => reply,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        };
        let (consent, proof) = (hello(to).consent, hello(from).proof);
        let seed = [1; 32];
        let voucher = relay
            .keys()
            .vouch([0; 8], RateClass::MAX, u32::MAX, public_key(&seed));
        let mint = Mint {
            nonce,
            proof,
            peer: Peer::Consent(consent),
            voucher,
        };
        let mint = mint.seal(|bytes| sign(&seed, bytes));
        let Action::Reply(reply) = relay.handle(NOW, addr(from), &mint) else {
            panic!("no reply")
        };
        Minted::decode(reply.as_bytes()).unwrap().there
    }

    fn receive(relay: &mut Relay, from: &str, datagrams: &[Vec<u8>]) -> Vec<Sent> {
        let log = Log::default();
        let mut bytes = datagrams.concat();
        let received = Received {
            from: addr(from),
            ecn: Some(EcnCodepoint::Ce),
            bytes: &mut bytes,
            stride: datagrams[0].len(),
        };
        pass(relay, NOW, received, &log);
        log.0.into_inner()
    }

    const S: &str = "198.51.100.1:1";

    #[test]
    fn a_run_leaves_in_one_batch_without_its_headers_and_with_its_mark() {
        let mut relay = relay();
        let grant = grant(&mut relay, S, "203.0.113.1:1");
        let payload = |i: u8, len| vec![i | 0x40; len];
        let mut datagrams: Vec<_> = (0..40)
            .map(|i| [grant.as_bytes(), &payload(i, 1200)].concat())
            .collect();
        datagrams.push([grant.as_bytes(), &payload(41, 7)].concat());
        let sent = receive(&mut relay, S, &datagrams);
        let expected: Vec<u8> = (0..40)
            .flat_map(|i| payload(i, 1200))
            .chain(payload(41, 7))
            .collect();
        assert_eq!(sent.len(), 1);
        let (to, ecn, contents, segment) = &sent[0];
        assert_eq!(
            (*to, *ecn, *segment),
            (addr("203.0.113.1:1"), Some(EcnCodepoint::Ce), 1200)
        );
        assert!(*contents == expected);
        assert_eq!(relay.counters().checks, 1);
        assert_eq!(relay.counters().forwarded_bytes, 40 * 1200 + 7);
    }

    #[test]
    fn interleaved_flows_leave_each_to_its_destination() {
        let mut relay = relay();
        let one = grant(&mut relay, S, "203.0.113.1:1");
        let two = grant(&mut relay, S, "203.0.113.2:2");
        let datagrams: Vec<_> = (0..10u8)
            .map(|i| {
                let grant = if i % 2 == 0 { &one } else { &two };
                [grant.as_bytes(), &[i | 0x40; 500]].concat()
            })
            .collect();
        let sent = receive(&mut relay, S, &datagrams);
        assert_eq!(sent.len(), 10);
        for (i, (to, _, contents, segment)) in sent.iter().enumerate() {
            let destination = addr(["203.0.113.1:1", "203.0.113.2:2"][i % 2]);
            assert_eq!((*to, *segment), (destination, 500));
            assert!(*contents == [i as u8 | 0x40; 500]);
        }
        assert_eq!(relay.counters().checks, 10);
    }

    /// Headers of different lengths make payloads of different lengths; none follows a shorter one.
    #[test]
    fn runs_end_where_lengths_grow_and_bad_packets_leave_no_gap() {
        let mut relay = relay();
        let v4 = grant(&mut relay, S, "203.0.113.1:1");
        let v6 = grant(&mut relay, S, "[2001:db8::1]:1");
        let forged = [&v4.as_bytes()[..25], &[0; 8]].concat();
        let fill = |header: &[u8], byte: u8| {
            let mut datagram = header.to_vec();
            datagram.resize(1000, byte);
            datagram
        };
        let order = [
            v4.as_bytes(),
            &forged,
            v4.as_bytes(),
            v6.as_bytes(),
            v4.as_bytes(),
        ];
        let datagrams: Vec<_> = (0x40..)
            .zip(order)
            .map(|(byte, header)| fill(header, byte))
            .collect();
        // The forged one's check is genuine: it is answered, as from a client that has moved.
        let sent = receive(&mut relay, S, &datagrams);
        let shapes: Vec<_> = sent
            .iter()
            .map(|(to, _, contents, segment)| (to.to_string(), contents.len(), *segment))
            .collect();
        let (to4, to6) = ("203.0.113.1:1".to_owned(), "[2001:db8::1]:1".to_owned());
        let stale = (S.to_owned(), 14, 14);
        let expected = [
            stale,
            (to4.clone(), 2 * 967, 967),
            (to6, 955, 955),
            (to4, 967, 967),
        ];
        assert_eq!(shapes, expected);
        assert!(sent[1].2[..967] == [0x40; 967] && sent[1].2[967..] == [0x42; 967]);
        assert!(sent[2].2.iter().all(|byte| *byte == 0x43));
        assert!(sent[3].2.iter().all(|byte| *byte == 0x44));
    }

    #[test]
    fn what_a_full_socket_loses_is_counted() {
        let mut relay = relay();
        let grant = grant(&mut relay, S, "203.0.113.1:1");
        let mut bytes = [grant.as_bytes(), &[0x40; 100]].concat().repeat(3);
        let received = Received {
            from: addr(S),
            ecn: None,
            stride: bytes.len() / 3,
            bytes: &mut bytes,
        };
        pass(&mut relay, NOW, received, &Full);
        assert_eq!(relay.counters().dropped_for(Reason::Socket), 3);
        assert_eq!(relay.counters().forwarded, 0);
        assert_eq!(relay.counters().forwarded_bytes, 0);
    }
}
