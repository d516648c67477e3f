//! Standard input and output as ends of a pipe.
//!
//! Threads of their own read and write: a call that never returns must not keep the program from
//! ending.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread;

use anyhow::Context;
use bytes::Bytes;
use nix::errno::Errno;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::oneshot;

use super::error::DiskFailed;

/// Most bytes read at once.
const PIECE: usize = 256 << 10;
/// Pieces between a thread and the connection, each way.
const PIECES: usize = 4;

/// Standard input.
#[derive(Debug)]
pub(crate) struct Input(Receiver<io::Result<Bytes>>);

impl Input {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Self::of(io::stdin())
    }

    fn of(from: impl Read + Send + 'static) -> anyhow::Result<Self> {
        let (pieces, input) = mpsc::channel(PIECES);
        let thread = thread::Builder::new().name("stdin".to_owned());
        let thread = thread.spawn(move || read(from, &pieces));
        thread.context("can't start a thread")?;
        Ok(Self(input))
    }

    /// The next bytes; `None` at the end. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        let piece = self.0.recv().await.transpose();
        piece.context("can't read standard input")
    }
}

fn read(mut from: impl Read, pieces: &Sender<io::Result<Bytes>>) {
    let mut buffer = vec![0; PIECE];
    loop {
        let piece = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => Ok(Bytes::copy_from_slice(&buffer[..len])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        if pieces.blocking_send(piece).is_err() || failed {
            return;
        }
    }
}

/// Standard output.
#[derive(Debug)]
pub(crate) struct Output {
    pieces: Sender<Bytes>,
    result: oneshot::Receiver<io::Result<()>>,
}

impl Output {
    pub(crate) fn start() -> anyhow::Result<Self> {
        // Not by way of the standard library's buffer of lines.
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        Self::to(File::from(stdout.context("can't open standard output")?))
    }

    fn to(target: impl Write + Send + 'static) -> anyhow::Result<Self> {
        let (pieces, waiting) = mpsc::channel(PIECES);
        let (ended, result) = oneshot::channel();
        let thread = thread::Builder::new().name("stdout".to_owned());
        let thread = thread.spawn(move || ended.send(write(target, waiting)).ok());
        thread.context("can't start a thread")?;
        Ok(Self { pieces, result })
    }

    /// Writes these bytes after those before.
    ///
    /// # Errors
    /// Earlier bytes couldn't be written.
    pub(crate) async fn write(&mut self, piece: Bytes) -> anyhow::Result<()> {
        match self.pieces.send(piece).await {
            Ok(()) => Ok(()),
            Err(_) => ended(&mut self.result).await,
        }
    }

    /// Waits until everything is written, and closes standard output.
    ///
    /// # Errors
    /// Something couldn't be written.
    pub(crate) async fn close(mut self) -> anyhow::Result<()> {
        drop(self.pieces);
        ended(&mut self.result).await?;
        // Who reads it sees the end now, and not when the program ends.
        let nothing = File::create("/dev/null");
        nothing
            .and_then(|nothing| Ok(nix::unistd::dup2_stdout(nothing)?))
            .context("can't close standard output")
    }
}

async fn ended(result: &mut oneshot::Receiver<io::Result<()>>) -> anyhow::Result<()> {
    let result = result.await;
    let result = result.unwrap_or_else(|_| Err(io::Error::other("the writer ended")));
    result.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG | Errno::EIO) => DiskFailed(error).into(),
        _ => anyhow::Error::new(error).context("can't write to standard output"),
    })
}

fn write(mut target: impl Write, mut pieces: Receiver<Bytes>) -> io::Result<()> {
    while let Some(piece) = pieces.blocking_recv() {
        target.write_all(&piece)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_read_is_what_is_written() {
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let (reader, writer) = io::pipe().unwrap();
        let (back, out) = io::pipe().unwrap();
        let feeder = bytes.clone();
        thread::spawn(move || {
            let mut writer = writer;
            writer.write_all(&feeder).unwrap();
        });
        let collected = thread::spawn(move || {
            let mut all = Vec::new();
            let mut back = back;
            back.read_to_end(&mut all).unwrap();
            all
        });
        let mut input = Input::of(reader).unwrap();
        let mut output = Output::to(out).unwrap();
        while let Some(piece) = input.next().await.unwrap() {
            output.write(piece).await.unwrap();
        }
        let Output { pieces, mut result } = output;
        drop(pieces);
        ended(&mut result).await.unwrap();
        assert!(collected.join().unwrap() == bytes);
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_is_an_error_with_the_next_bytes() {
        let (back, out) = io::pipe().unwrap();
        drop(back);
        let mut output = Output::to(out).unwrap();
        let mut error = Ok(());
        // The channel takes some before the thread has noticed.
        for _ in 0..=2 * PIECES {
            error = output.write(Bytes::from_static(b"x")).await;
            tokio::task::yield_now().await;
            if error.is_err() {
                break;
            }
        }
        let error = match error {
            Ok(()) => output.close().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.to_string().contains("standard output"), "{error}");
        assert_eq!(
            error
                .root_cause()
                .downcast_ref::<io::Error>()
                .unwrap()
                .kind(),
            io::ErrorKind::BrokenPipe
        );
    }

    #[tokio::test]
    async fn an_input_that_fails_is_an_error() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::PermissionDenied.into())
            }
        }
        let error = Input::of(Broken).unwrap().next().await.unwrap_err();
        assert_eq!(error.to_string(), "can't read standard input");
    }
}
