//! `manyway top`: the connections of all of this user's processes, path by path.
//!
//! It reads what the processes publish, and changes nothing.

mod board;
mod gather;
#[cfg(feature = "top")]
mod terminal;
#[cfg(feature = "top")]
mod view;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::board::{Board, Connection};
use self::gather::News;
use crate::args::TopArgs;
use crate::publish::{PERIOD, dir};
use crate::screen::Screen;
use crate::summary::print_json;

/// News that may wait.
const WAITING: usize = 64;
/// `--json` gets a line at once and two more, for rates over a second.
const LOOK: Duration = PERIOD
    .saturating_mul(2)
    .saturating_add(Duration::from_millis(200));

/// `--json`'s object; fields are added, never changed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    connections: Vec<&'a Connection>,
    connections_left_out: usize,
}

#[cfg_attr(not(feature = "top"), expect(unused_variables))]
pub(crate) async fn run(screen: &Screen, args: TopArgs) -> anyhow::Result<()> {
    let places = dir::places();
    if !args.json {
        #[cfg(feature = "top")]
        return terminal::run(screen, places).await;
        #[cfg(not(feature = "top"))]
        return Err(crate::exit::usage(
            "this manyway was built without the view of `top`: build it with `cargo build \
             --release --features top`, or give `--json`",
        ));
    }
    let board = look(places).await?;
    print_json(&Report {
        connections: board.connections().collect(),
        connections_left_out: board.left_out(),
    })
}

/// Looks once, for long enough to see rates.
async fn look(places: Vec<PathBuf>) -> anyhow::Result<Board> {
    let (news, mut told) = mpsc::channel(WAITING);
    let mut board = Board::default();
    let take = async {
        while let Some(news) = told.recv().await {
            if matches!(news, News::Found(0)) {
                return;
            }
            hear(&mut board, news);
        }
    };
    tokio::select! {
        done = gather::run(places, news) => done?,
        _ = timeout(LOOK, take) => {}
    }
    Ok(board)
}

fn hear(board: &mut Board, news: News) {
    match news {
        News::Said(process, moment) => board.take(process, moment),
        News::Gone(process) => board.remove(process),
        News::Found(_) => {}
    }
}
