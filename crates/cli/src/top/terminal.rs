//! The terminal that `manyway top` draws on, and its keys.

use std::io::{self, IsTerminal, stdin, stdout};
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::board::Board;
use super::view::View;
use super::{WAITING, gather, hear};
use crate::exit::{Stop, usage};
use crate::screen::Screen;

const REDRAW: Duration = Duration::from_millis(250);

/// Draws until the user has seen enough, or the terminal is gone.
pub(super) async fn run(screen: &Screen, places: Vec<PathBuf>) -> anyhow::Result<()> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if dumb || !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(usage(
            "`manyway top` needs a terminal to draw on: give `--json` to print the connections \
             instead",
        ));
    }
    // NO_COLOR and the like.
    let colour = AutoStream::choice(&stdout()) != ColorChoice::Never;
    let stop = Stop::listen(false);
    // Dropped after the terminal is restored.
    let _log = screen.hold();
    let mut drawn = Drawn::begin().context("can't draw on this terminal")?;
    let mut keys = keys()?;
    let (news, mut told) = mpsc::channel(WAITING);
    let mut gathered = std::pin::pin!(gather::run(places, news));
    let mut redraw = interval(REDRAW);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut board, mut view) = (Board::default(), View::new(colour));
    loop {
        tokio::select! {
            done = &mut gathered => return Ok(done?),
            Some(news) = told.recv() => {
                hear(&mut board, news);
                continue;
            }
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if !press(&mut view, key) {
                        return Ok(());
                    }
                }
                // Another size, for example.
                Some(_) => {}
                None => return Ok(()),
            },
            _ = redraw.tick() => {}
            () = stop.requested() => return Ok(()),
        }
        if drawn.0.draw(|frame| view.draw(frame, &board)).is_err() {
            // Nobody sees it any more.
            return Ok(());
        }
    }
}

/// A terminal that shows something else than before; dropping it restores it. It may be gone by
/// then, of which ratatui's own `drop` would complain.
struct Drawn(ManuallyDrop<DefaultTerminal>);

impl Drawn {
    fn begin() -> io::Result<Self> {
        let begun = ratatui::try_init();
        let begun = begun.inspect_err(|_| drop(ratatui::try_restore()));
        Ok(Self(ManuallyDrop::new(begun?)))
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        self.0.show_cursor().ok();
        ratatui::try_restore().ok();
    }
}

/// What comes from the terminal, until it is gone.
fn keys() -> anyhow::Result<mpsc::Receiver<Event>> {
    let (pressed, keys) = mpsc::channel(WAITING);
    // Its own thread: a read that never returns must not keep the program from ending.
    thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || {
            while let Ok(event) = event::read() {
                if pressed.blocking_send(event).is_err() {
                    return;
                }
            }
        })
        .context("can't start a thread")?;
    Ok(keys)
}

/// Does what a key means. `false`: it is the end.
fn press(view: &mut View, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Up => view.scroll(-1, 0),
        KeyCode::Down => view.scroll(1, 0),
        KeyCode::PageUp => view.scroll(0, -1),
        KeyCode::PageDown => view.scroll(0, 1),
        KeyCode::Home => view.scroll(isize::MIN, 0),
        KeyCode::End => view.scroll(isize::MAX, 0),
        _ => {}
    }
    true
}
