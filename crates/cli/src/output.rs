//! Standard output of `send` and `recv`: JSON objects, one in each line.
//!
//! A thread of its own writes them, so that a consumer that stops reading holds no transfer up.
//! What waits for it is bounded: events first, then ends of transfers are left out.

use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use serde::Serialize;

use crate::end::End;

/// Bytes that may wait when another event is written.
const MOST_EVENTS: usize = 64 << 10;
/// Bytes that may wait when another transfer's end is written.
const MOST_ENDS: usize = 16 << 20;

/// Writes objects to standard output.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    items: mpsc::Sender<Item>,
    /// Bytes, roughly, that wait or are being written.
    unread: Arc<AtomicUsize>,
    thread: Arc<Mutex<Option<JoinHandle<io::Result<()>>>>>,
}

#[derive(Debug)]
enum Item {
    Event(Vec<u8>),
    /// Turned into text by the writer, in parts: it may name a million files.
    End(Arc<End>),
    Close,
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(line) => line.len(),
            Self::End(end) => end.bytes(),
            Self::Close => 0,
        }
    }
}

impl Output {
    /// Starts the writer.
    pub(crate) fn start() -> anyhow::Result<Self> {
        Self::to(io::stdout())
    }

    fn to(target: impl Write + Send + 'static) -> anyhow::Result<Self> {
        let (items, waiting) = mpsc::channel();
        let unread = Arc::new(AtomicUsize::new(0));
        let count = unread.clone();
        let thread = thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || write(&waiting, &count, target))
            .context("can't start a thread")?;
        Ok(Self {
            items,
            unread,
            thread: Arc::new(Mutex::new(Some(thread))),
        })
    }

    /// Writes an event, or leaves it out while too much waits.
    pub(crate) fn event(&self, event: &impl Serialize) {
        if self.unread.load(Relaxed) < MOST_EVENTS
            && let Ok(line) = serde_json::to_vec(event)
        {
            self.push(Item::Event(line));
        }
    }

    /// Writes the end of a transfer. Returns whether there is room for it.
    #[must_use]
    pub(crate) fn end(&self, end: Arc<End>) -> bool {
        let room = self.unread.load(Relaxed) < MOST_ENDS;
        if room {
            self.push(Item::End(end));
        }
        room
    }

    fn push(&self, item: Item) {
        self.unread.fetch_add(item.bytes(), Relaxed);
        // Where writing has failed, nobody reads any more; `close` says so.
        self.items.send(item).ok();
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// Standard output failed.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.push(Item::Close);
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(thread) = thread else {
            return Ok(());
        };
        let written = tokio::task::spawn_blocking(|| thread.join()).await?;
        let written = written.unwrap_or_else(|_| Err(io::Error::other("the writer ended")));
        written.context("can't write to standard output")
    }
}

fn write(items: &mpsc::Receiver<Item>, unread: &AtomicUsize, target: impl Write) -> io::Result<()> {
    let mut target = BufWriter::with_capacity(1 << 16, target);
    for item in items {
        match &item {
            Item::Event(line) => target.write_all(line)?,
            Item::End(end) => serde_json::to_writer(&mut target, end.as_ref())?,
            Item::Close => return Ok(()),
        }
        target.write_all(b"\n")?;
        target.flush()?;
        unread.fetch_sub(item.bytes(), Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes nothing until it is told to.
    struct Reader {
        go: mpsc::Receiver<()>,
        going: bool,
        text: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.going {
                self.go.recv().ok();
                self.going = true;
            }
            self.text.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn who_reads_nothing_costs_bounded_memory_and_gets_the_end() {
        let (reads, go) = mpsc::channel();
        let text = Arc::new(Mutex::new(Vec::new()));
        let reader = Reader {
            go,
            going: false,
            text: text.clone(),
        };
        let output = Output::to(reader).unwrap();
        for n in 0..100_000 {
            output.event(&serde_json::json!({ "event": "progress", "n": n }));
        }
        let most = MOST_EVENTS + 100;
        assert!((MOST_EVENTS..most).contains(&output.unread.load(Relaxed)));
        let end = || {
            Arc::new(End::failed(
                Some(1),
                &anyhow::anyhow!("{}", "x".repeat(1 << 20)),
            ))
        };
        let taken = (0..100).filter(|_| output.end(end())).count();
        assert_eq!(taken, 16);
        assert!(text.lock().unwrap().is_empty());
        reads.send(()).unwrap();
        output.close().await.unwrap();
        let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!((1000..3000).contains(&lines.len()), "{}", lines.len());
        assert_eq!(lines[5], r#"{"event":"progress","n":5}"#);
        let ends = lines
            .iter()
            .filter(|line| line.starts_with(r#"{"event":"error","#));
        assert_eq!(ends.count(), 16);
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_is_an_error_at_the_end() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let output = Output::to(Closed).unwrap();
        assert!(output.end(Arc::new(End::failed(None, &anyhow::anyhow!("x")))));
        let error = output.close().await.unwrap_err();
        assert_eq!(error.to_string(), "can't write to standard output");
    }
}
