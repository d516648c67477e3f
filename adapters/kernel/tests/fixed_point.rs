//! The kernel's integer arithmetic (`bpf/laws.h`), compiled for this host, against the laws of
//! `manyway-control` over random states of connections.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use manyway_control::laws::{Balia, FullyCoupled, Lia, Olia, Semicoupled};
use manyway_control::{Law, Path};

const STATES: usize = 200_000;
/// Far below what the windows' own noise is; the largest error found is printed.
const TOLERANCE: f64 = 0.01;
/// `ONE` of laws.h.
const ONE: f64 = (1_u64 << 40) as f64;

/// A path as the kernel has it: packets, bytes, eighths of microseconds, bytes.
struct Subflow {
    window: u32,
    mss: u32,
    rtt: u32,
    between: u64,
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly spread over the orders of magnitude between two numbers.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        (least.ln() + self.unit() * (most / least).ln()).exp()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.unit() * from.len() as f64) as usize]
    }

    fn subflow(&mut self) -> Subflow {
        Subflow {
            // From the kernel's least to 64 GB/s in flight at a second.
            window: self.between(1.0, 4e6) as u32,
            // From IPv4's least datagram to loopback's.
            mss: self.pick(&[536, 1220, 1388, 1428, 1448, 8948, 65_483]),
            // From 10 µs to 10 s.
            rtt: self.between(8e1, 8e7) as u32,
            between: self.between(1.0, 1e12) as u64,
        }
    }
}

/// The state as the laws of `control` see it from path `r`: windows in its packets.
fn seen(subflows: &[Subflow], r: usize) -> Vec<Path<f64>> {
    let mss = f64::from(subflows[r].mss);
    let path = |s: &Subflow| Path {
        window: f64::from(s.window) * f64::from(s.mss) / mss,
        rtt: f64::from(s.rtt) / 8e6,
    };
    subflows.iter().map(path).collect()
}

/// OLIA that has seen `between` bytes on each path since its last loss.
fn olia(subflows: &[Subflow]) -> Olia {
    let mut law = Olia::default();
    for (r, s) in subflows.iter().enumerate() {
        law.on_path_added(s.mss);
        law.on_acked(
            r,
            s.between as f64 / f64::from(s.mss),
            f64::from(s.rtt) / 8e6,
        );
    }
    law
}

/// Runs the program of `fixed_point.c`: its lines of output.
fn kernel(input: String) -> String {
    let binary = format!("{}/fixed_point", env!("CARGO_TARGET_TMPDIR"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixed_point.c");
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .args(["-fsanitize=undefined", "-fno-sanitize-recover=all"])
        .args(["-o", &binary, source])
        .status();
    assert!(compiled.expect("cc, a C compiler").success());
    let mut child = Command::new(&binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(
        output.status.success(),
        "undefined behaviour, or input that wasn't understood"
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_integers_follow_the_laws() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let states: Vec<(usize, Vec<Subflow>)> = (0..STATES)
        .map(|_| {
            let n = 1 + (random.unit() * 8.0) as usize;
            let subflows: Vec<_> = (0..n).map(|_| random.subflow()).collect();
            ((random.unit() * n as f64) as usize, subflows)
        })
        .collect();
    let mut input = String::new();
    for (r, subflows) in &states {
        write!(input, "{} {r}", subflows.len()).unwrap();
        for s in subflows {
            write!(input, " {} {} {} {}", s.window, s.mss, s.rtt, s.between).unwrap();
        }
        input.push('\n');
    }
    let output = kernel(input);

    let names = [
        "lia",
        "coupled",
        "semicoupled",
        "balia",
        "olia",
        "half",
        "balia's cut",
    ];
    let mut worst = [0.0_f64; 7];
    assert_eq!(output.lines().count(), STATES);
    for ((r, subflows), line) in states.iter().zip(output.lines()) {
        let (r, paths) = (*r, seen(subflows, *r));
        let window = paths[r].window;
        let left = |law: &dyn Law| window - law.decrease(&paths, r);
        let growth = |law: &dyn Law| window * law.increase(&paths, r);
        let coupled = growth(&FullyCoupled);
        let expected = [
            growth(&Lia),
            coupled,
            growth(&Semicoupled),
            growth(&Balia),
            growth(&olia(subflows)),
            left(&Lia),
            left(&Balia),
        ];
        let got = line
            .split(' ')
            .map(|word| word.parse::<f64>().unwrap() / ONE);
        for (i, (expected, got)) in expected.into_iter().zip(got).enumerate() {
            // OLIA's α is taken from or added to the coupled law's increase: a difference is as
            // exact as its terms.
            let scale = if i == 4 {
                coupled + (expected - coupled).abs()
            } else {
                expected.abs()
            };
            // Below that, a window takes billions of ACKs to grow by a packet.
            let error = (got - expected).abs() / scale.max(2e-10);
            assert!(
                error <= TOLERANCE,
                "{}: {got} instead of {expected}, path {r} of {line}",
                names[i]
            );
            worst[i] = worst[i].max(error);
        }
    }
    for (name, worst) in names.iter().zip(worst) {
        writeln!(
            std::io::stderr(),
            "{name}: at most {worst:.1e} from the law"
        )
        .unwrap();
    }
}
