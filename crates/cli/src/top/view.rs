//! What is drawn of a board: for each connection a heading, and a lane for each path. It reads no
//! clock and knows no terminal.

use std::collections::{BTreeMap, VecDeque};

use manyway_units::{ByteSize, Rate};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::board::{Board, Connection, KEPT, Lane};
use crate::text;

/// Below this width, a path has two rows.
const NARROW: usize = 72;
/// Most columns of a path's label.
const LABEL: usize = 40;
/// Fewest columns of a graph: those of "stalled" and "standby".
const GRAPH: usize = 7;
/// Most columns of a peer's name: the beginning of an id will do.
const PEER: usize = 16;
/// Columns of a rate, with its space.
const RATE: usize = 11;
/// Columns of a time, with its space.
const TIME: usize = 8;
/// Columns of the losses, with their space.
const LOSS: usize = 7;
/// Columns of a group's letter, with its space.
const GROUP: usize = 2;
/// Those of groups, in turn.
const COLOURS: [Color; 5] = [
    Color::Cyan,
    Color::Magenta,
    Color::Yellow,
    Color::Blue,
    Color::Green,
];

/// How a board is looked at.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) colour: bool,
    /// Rows above the window.
    offset: usize,
    /// Rows of the window when it was drawn last.
    page: usize,
}

impl View {
    pub(super) fn new(colour: bool) -> Self {
        Self {
            colour,
            ..Self::default()
        }
    }

    /// Scrolls by this many rows, or pages.
    pub(super) fn scroll(&mut self, rows: isize, pages: isize) {
        let page = isize::try_from(self.page.max(1)).unwrap_or(isize::MAX);
        let rows = pages.saturating_mul(page).saturating_add(rows);
        // Drawing sees to it that it isn't beyond the end.
        self.offset = self.offset.saturating_add_signed(rows);
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, board: &Board) {
        let width = usize::from(frame.area().width);
        let head = u16::from(width >= NARROW);
        let rows = [head, 0, 1].map(Constraint::Length);
        let rows = [rows[0], Constraint::Min(0), rows[2]];
        let [top, middle, bottom] = Layout::vertical(rows).areas(frame.area());
        let paint = Paint::new(width, self.colour, board);
        let lines = paint.lines(board);
        self.page = middle.height.into();
        self.offset = self.offset.min(lines.len().saturating_sub(self.page));
        if lines.is_empty() {
            let text =
                "None of your manyway processes has a connection now. This shows the next one.";
            let text = Paragraph::new(text).wrap(Wrap { trim: true });
            frame.render_widget(text, middle);
        } else if head > 0 {
            frame.render_widget(paint.head(), top);
        }
        let (all, first) = (lines.len(), self.offset);
        let shown: Vec<Line<'_>> = lines.into_iter().skip(first).take(self.page).collect();
        frame.render_widget(paint.foot(first, shown.len(), all), bottom);
        frame.render_widget(Paragraph::new(shown), middle);
    }
}

/// How wide lines are, and whether they are coloured.
struct Paint {
    width: usize,
    /// Columns of the longest label.
    longest: usize,
    colour: bool,
}

impl Paint {
    fn new(width: usize, colour: bool, board: &Board) -> Self {
        let lanes = board.connections().flat_map(|it| &it.lanes);
        let widths = lanes.map(|lane| text::Line::from(&lane.moment.label).width());
        Self {
            width,
            longest: widths.max().unwrap_or(0),
            colour,
        }
    }

    fn lines(&self, board: &Board) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for connection in board.connections() {
            if !lines.is_empty() {
                lines.push(Line::default());
            }
            lines.push(self.heading(board, connection));
            let letters = letters(connection);
            let scale = connection.lanes.iter().flat_map(|lane| &lane.history);
            let scale = scale.copied().fold(0.0, f64::max);
            for lane in &connection.lanes {
                let group = lane.moment.group.and_then(|group| letters.get(&group));
                match self.width < NARROW {
                    true => lines.extend(self.narrow(lane, group.copied(), scale)),
                    false => lines.push(self.wide(lane, group.copied(), scale)),
                }
            }
            match connection.moment.paths_left_out {
                0 => {}
                more => lines.push(self.faint(format!("  … and {more} more paths"))),
            }
        }
        match board.left_out() {
            0 => {}
            more => lines.push(self.faint(format!("… and {more} more connections"))),
        }
        lines
    }

    /// What matters most comes first: the end may have no room.
    fn heading(&self, board: &Board, connection: &Connection) -> Line<'static> {
        let moment = &connection.moment;
        let mut parts = vec![moment.doing.clone()];
        let size = moment.bytes.zip(moment.bytes_total);
        if let Some((done, all)) = size {
            let percent = 100.0 * done as f64 / all.max(1) as f64;
            parts.push(format!("{percent:.0} %"));
        }
        let total = |rate: fn(&Lane) -> Rate| {
            let bits = connection
                .lanes
                .iter()
                .map(|lane| rate(lane).bits_per_sec());
            Rate::from_bits_per_sec(bits.sum::<f64>())
        };
        let (sent, received) = (total(|lane| lane.sent), total(|lane| lane.received));
        let narrow = self.width < NARROW;
        if narrow {
            let (arrow, faster) = faster(sent, received);
            parts.push(format!("{arrow}{faster:.0}"));
        } else {
            parts.push(format!("↑ {}  ↓ {}", rate(sent), rate(received)));
        }
        if let Some(peer) = &moment.peer {
            let peer = text::Line::from(peer).cut(PEER).render(false);
            parts.push(format!("({peer})"));
        }
        if let Some((done, all)) = size.filter(|_| !narrow) {
            let [done, all] = [done, all].map(|bytes| ByteSize::new(bytes).decimal());
            parts.push(format!("{done} of {all}"));
        }
        if !narrow {
            let process = connection.process;
            let others = board.connections().filter(|it| it.process == process);
            // A process that serves several hosts has a connection to each.
            parts.push(match others.count() {
                0 | 1 => format!("process {process}"),
                _ => format!("process {process}, connection {}", moment.connection),
            });
        }
        let text = parts.join(if narrow { " " } else { "  " });
        let style = Style::new().add_modifier(Modifier::BOLD);
        Line::from(self.span(cell(&text, self.width).trim_end(), style))
    }

    /// The titles of the columns.
    fn head(&self) -> Line<'static> {
        let (label, graph) = self.columns();
        let mut text = " ".repeat(GROUP) + &cell("path", label) + " ";
        text += &cell(if graph < 9 { "60 s" } else { "last 60 s" }, graph);
        for (title, width) in [
            ("sent", RATE),
            ("received", RATE),
            ("RTT", TIME),
            ("queue", TIME),
            ("loss", LOSS),
        ] {
            text += &right(title, width);
        }
        self.faint(text)
    }

    /// The columns of labels and of graphs.
    fn columns(&self) -> (usize, usize) {
        let rest = self.width - GROUP - 1 - 2 * RATE - 2 * TIME - LOSS;
        let label = self.longest.clamp(4, LABEL).min(rest - GRAPH);
        (label, rest - label)
    }

    fn wide(&self, lane: &Lane, group: Option<char>, scale: f64) -> Line<'static> {
        let (label, graph) = self.columns();
        let moment = &lane.moment;
        let times = right(&time(moment.rtt_ms), TIME) + &right(&queue(lane), TIME);
        Line::from(vec![
            self.letter(group),
            Span::raw(cell(&moment.label, label) + " "),
            self.graph(lane, graph, scale),
            Span::raw(right(&rate(lane.sent), RATE) + &right(&rate(lane.received), RATE)),
            Span::raw(times),
            self.loss(lane),
        ])
    }

    fn narrow(&self, lane: &Lane, group: Option<char>, scale: f64) -> [Line<'static>; 2] {
        let moment = &lane.moment;
        let label = self.width.saturating_sub(GROUP + LOSS);
        let graph = self.width.saturating_sub(GROUP + 1 + RATE + TIME);
        let (arrow, faster) = faster(lane.sent, lane.received);
        let (graph, rate) = match graph < GRAPH && moment.state != "active" {
            // Why there is no rate says more than a rate of 0.
            true => (graph + RATE + 1, String::new()),
            false => (graph, right(&format!("{arrow}{}", rate(faster)), RATE + 1)),
        };
        [
            Line::from(vec![
                self.letter(group),
                Span::raw(cell(&moment.label, label)),
                self.loss(lane),
            ]),
            Line::from(vec![
                Span::raw(" ".repeat(GROUP)),
                self.graph(lane, graph, scale),
                Span::raw(rate + &right(&time(moment.rtt_ms), TIME)),
            ]),
        ]
    }

    fn letter(&self, group: Option<char>) -> Span<'static> {
        let Some(letter) = group else {
            return Span::raw(" ".repeat(GROUP));
        };
        let number = u32::from(letter) - u32::from('A');
        let style = Style::new().fg(COLOURS[number as usize % COLOURS.len()]);
        self.span(format!("{letter} "), style)
    }

    /// The rates of the last minute, or why there are none.
    fn graph(&self, lane: &Lane, columns: usize, scale: f64) -> Span<'static> {
        let (state, style) = match lane.moment.state.as_str() {
            "active" => {
                let graph = sparkline(&lane.history, columns, scale);
                return self.span(graph, Style::new().fg(Color::Green));
            }
            "validating" => ("trying", Style::new().fg(Color::Yellow)),
            "standby" => ("standby", Style::new().add_modifier(Modifier::DIM)),
            other => (other, Style::new().fg(Color::Red)),
        };
        self.span(cell(state, columns), style)
    }

    fn loss(&self, lane: &Lane) -> Span<'static> {
        let Some(loss) = lane.moment.loss else {
            return Span::raw(right("", LOSS));
        };
        let percent = 100.0 * loss;
        let text = match percent {
            _ if percent < 0.005 => "0 %".to_owned(),
            _ if percent < 1.0 => format!("{percent:.2} %"),
            _ if percent < 10.0 => format!("{percent:.1} %"),
            _ => format!("{percent:.0} %"),
        };
        let colour = match percent {
            _ if percent < 1.0 => Style::new(),
            _ if percent < 10.0 => Style::new().fg(Color::Yellow),
            _ => Style::new().fg(Color::Red),
        };
        self.span(right(&text, LOSS), colour)
    }

    fn foot(&self, first: usize, shown: usize, all: usize) -> Line<'static> {
        let mut text = match shown {
            0 if all > 0 => "no room  q quits".to_owned(),
            _ if shown < all => format!(
                "{}-{} of {all}  ↑↓ scroll  q quits",
                first + 1,
                first + shown
            ),
            _ => "q quits".to_owned(),
        };
        if self.width >= NARROW && all > 0 {
            text += "  paths with the same letter are treated as sharing a bottleneck";
        }
        self.faint(cell(&text, self.width).trim_end())
    }

    fn faint(&self, text: impl Into<String>) -> Line<'static> {
        Line::from(self.span(text, Style::new().add_modifier(Modifier::DIM)))
    }

    fn span(&self, text: impl Into<String>, style: Style) -> Span<'static> {
        let style = if self.colour { style } else { Style::new() };
        Span::styled(text.into(), style)
    }
}

/// The letters of the groups that have several paths.
fn letters(connection: &Connection) -> BTreeMap<u64, char> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    let groups = connection.lanes.iter().filter_map(|lane| lane.moment.group);
    groups.for_each(|group| *counts.entry(group).or_default() += 1);
    let several = counts.into_iter().filter(|(_, count)| *count > 1);
    several
        .map(|(group, _)| group)
        .zip(('A'..='Z').cycle())
        .collect()
}

/// A bar for each column, as high as the mean of its time; the newest is the last.
fn sparkline(history: &VecDeque<f64>, columns: usize, scale: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let missing = KEPT.saturating_sub(history.len());
    let bar = |column: usize| {
        let (from, to) = (column * KEPT / columns, (column + 1) * KEPT / columns);
        let (from, to) = (from.max(missing), to.max(from + 1));
        let known = (from..to).filter_map(|at| history.get(at - missing));
        let (count, sum) = known.fold((0.0, 0.0), |(n, sum), rate| (n + 1.0, sum + rate));
        if count == 0.0 {
            return ' ';
        }
        let height = sum / count / scale.max(1.0) * (BARS.len() - 1) as f64;
        BARS[(height.round() as usize).min(BARS.len() - 1)]
    };
    (0..columns).map(bar).collect()
}

/// The higher of two rates, with its arrow.
fn faster(sent: Rate, received: Rate) -> (char, Rate) {
    match sent < received {
        true => ('↓', received),
        false => ('↑', sent),
    }
}

fn rate(rate: Rate) -> String {
    match rate.is_zero() {
        true => "0".to_owned(),
        false => format!("{rate:.1}"),
    }
}

/// How much longer a round trip takes than the shortest did.
fn queue(lane: &Lane) -> String {
    let queue = lane.moment.rtt_ms.zip(lane.moment.min_rtt_ms);
    let queue = queue.map(|(rtt, min)| (rtt - min).max(0.0));
    time(queue)
}

fn time(millis: Option<f64>) -> String {
    match millis {
        None => String::new(),
        Some(millis) if millis < 9.95 => format!("{millis:.1} ms"),
        Some(millis) if millis < 9999.5 => format!("{millis:.0} ms"),
        Some(millis) => format!("{:.0} s", millis / 1e3),
    }
}

/// A text in so many columns.
fn cell(text: &str, columns: usize) -> String {
    let line = text::Line::from(text).cut(columns);
    let room = columns - line.width();
    line.render(false) + &" ".repeat(room)
}

/// A text at the right of so many columns, after a space.
fn right(text: &str, columns: usize) -> String {
    let line = text::Line::from(text).cut(columns - 1);
    let room = columns - line.width();
    " ".repeat(room) + &line.render(false)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::board::tests::{connection, moment, path};
    use super::*;
    use crate::publish::moment::PathMoment;

    /// A transfer over paths of all kinds, and a tunnel.
    fn board() -> Board {
        let mut board = Board::default();
        let mut wlan_sent = 0;
        for half in 0..=150_u32 {
            wlan_sent += 20_000_000 / 16 / (1 + u64::from(half % 60 < 30));
            let time = f64::from(half) / 2.0;
            let sent = |mbps: f64| (time * mbps * 1e6 / 8.0) as u64;
            let mut eth = path(1, "eth0 → 203.0.113.5");
            // Faster and faster.
            eth.bytes_sent = sent(95.0 * time / 150.0);
            eth.bytes_received = sent(1.0);
            let mut wlan = path(2, "wlan0 → 203.0.113.5");
            wlan.bytes_sent = wlan_sent;
            (wlan.rtt_ms, wlan.min_rtt_ms, wlan.loss) = (Some(61.4), Some(19.1), Some(0.0123));
            let mut usb = path(3, "usb0 → 2001:db8:4711::5");
            (usb.state, usb.rtt_ms, usb.loss) = ("stalled".to_owned(), Some(20_100.0), Some(0.31));
            usb.group = Some(5);
            let relay = PathMoment {
                state: "validating".to_owned(),
                relay: true,
                rtt_ms: None,
                min_rtt_ms: None,
                loss: None,
                group: None,
                ..path(4, "eth0 → relay 198.51.100.17:4500")
            };
            let mut transfer = connection(1, vec![eth, wlan, usb, relay]);
            transfer.peer = Some("ann".to_owned());
            transfer.paths_left_out = 3;
            board.take(4711, moment(time, vec![transfer]));

            let mut tunnel = connection(1, vec![path(1, "eth0 → 192.0.2.9 (tcp)")]);
            tunnel.doing = "tunnelling".to_owned();
            (tunnel.bytes, tunnel.bytes_total) = (None, None);
            tunnel.paths[0].bytes_received = sent(4.0);
            (tunnel.paths[0].loss, tunnel.paths[0].group) = (None, None);
            board.take(4712, moment(time, vec![tunnel]));
        }
        board
    }

    fn drawn(view: &mut View, board: &Board, size: (u16, u16)) -> TestBackend {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| view.draw(frame, board)).unwrap();
        terminal.backend().clone()
    }

    /// A view without what fills the screen up.
    fn picture(backend: &str) -> String {
        let rows = backend.lines().map(|row| row.trim_matches('"').trim_end());
        let mut rows: Vec<&str> = rows.collect();
        rows.dedup_by(|row, before| row.is_empty() && before.is_empty());
        rows.join("\n")
    }

    #[test]
    fn it_fits_every_width() {
        let board = board();
        for columns in [30, 80, 140] {
            let backend = drawn(&mut View::new(false), &board, (columns, 14));
            insta::assert_snapshot!(format!("columns_{columns}"), backend);
            if columns == 80 {
                let guide = include_str!("../../../../docs/guide.md");
                let shown = picture(&backend.to_string());
                assert!(
                    guide.contains(&shown),
                    "docs/guide.md shows another view:\n{shown}"
                );
            }
            let plain = backend.buffer().content.iter();
            let is_plain =
                |fg: Color, modifier: Modifier| fg == Color::Reset && modifier.is_empty();
            assert!(
                plain
                    .into_iter()
                    .all(|cell| is_plain(cell.fg, cell.modifier))
            );
        }
        for columns in 0..200 {
            drawn(&mut View::new(true), &board, (columns, columns % 17));
        }
    }

    #[test]
    fn colours_say_the_same() {
        let board = board();
        let text = |colour| drawn(&mut View::new(colour), &board, (80, 14)).to_string();
        assert_eq!(text(true), text(false));
        let coloured = drawn(&mut View::new(true), &board, (80, 14));
        let buffer = coloured.buffer();
        // The letters of the group, a graph, and a path that doesn't work.
        let colour = |x, y| buffer[(x, y)].fg;
        assert_eq!((colour(0, 2), colour(0, 3)), (Color::Cyan, Color::Cyan));
        assert_eq!((colour(31, 2), colour(28, 4)), (Color::Green, Color::Red));
    }

    #[test]
    fn what_has_no_room_can_be_scrolled_to() {
        let (board, mut view) = (board(), View::new(false));
        let mut shown = |rows, pages| {
            view.scroll(rows, pages);
            let text = drawn(&mut view, &board, (80, 5)).to_string();
            let foot = text.lines().last().unwrap().trim_matches('"').to_owned();
            foot.split("  ").next().unwrap().to_owned()
        };
        let steps = [
            (0, 0),
            (1, 0),
            (-9, 0),
            (0, 1),
            (0, 9),
            (0, -1),
            (0, isize::MIN),
        ];
        let places = steps.map(|(rows, pages)| shown(rows, pages));
        let expected = ["1-3", "2-4", "1-3", "4-6", "7-9", "4-6", "1-3"];
        assert_eq!(places, expected.map(|place| format!("{place} of 9")));
    }

    #[test]
    fn little_room_keeps_what_matters() {
        let board = board();
        let text = |size| drawn(&mut View::new(false), &board, size).to_string();
        let narrow = text((20, 14));
        assert!(narrow.contains("stalled"), "{narrow}");
        assert!(text((80, 1)).contains("no room"), "{}", text((80, 1)));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let backend = drawn(&mut View::new(true), &Board::default(), (30, 6));
        insta::assert_snapshot!("nothing", backend);
    }

    /// A process that serves several hosts has connections that look alike.
    #[test]
    fn connections_of_one_process_are_told_apart() {
        let mut board = Board::default();
        board.take(7, moment(0.0, vec![connection(1, vec![])]));
        let two = [3, 5].map(|id| connection(id, vec![]));
        board.take(9, moment(0.0, two.to_vec()));
        let drawn = drawn(&mut View::new(false), &board, (100, 10)).to_string();
        let endings = [
            "process 7 ",
            "process 9, connection 3 ",
            "process 9, connection 5 ",
        ];
        for ending in endings {
            assert_eq!(drawn.matches(ending).count(), 1, "{drawn}");
        }
    }

    #[test]
    fn strange_numbers_keep_their_columns() {
        for number in [0.0, -5.0, 9.96, 123.4, 1e300, f64::INFINITY, f64::NAN] {
            let mut board = Board::default();
            for at in [0.0, 0.1] {
                let mut path = path(1, "eth0");
                (path.rtt_ms, path.loss) = (Some(number), Some(number));
                (path.min_rtt_ms, path.bytes_sent) = (Some(-number), (at * 1e19) as u64);
                board.take(1, moment(at, vec![connection(1, vec![path])]));
            }
            let paint = Paint::new(80, false, &board);
            for line in paint.lines(&board) {
                assert!(line.width() <= 80, "{line}");
            }
        }
    }
}
