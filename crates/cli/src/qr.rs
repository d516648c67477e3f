//! QR codes on the terminal, of what the other side has to type.

use std::fmt::Write;

use qrcode::{Color, EcLevel, QrCode};

use crate::screen::{Screen, Size};

/// Light modules around the code, which scanners need (ISO/IEC 18004, section 9.1).
const QUIET: usize = 4;
/// White on black, whatever the terminal's colours are: light modules are characters.
const COLOURS: &str = "\x1b[38;5;231;48;5;16m";
const RESET: &str = "\x1b[0m";

/// Shows the code of a text, if there is a terminal; says so if that is too small.
pub(crate) fn show(screen: &Screen, text: &str) {
    if !screen.is_terminal() {
        return;
    }
    match picture(text, screen.size(), screen.colours()) {
        Ok(picture) => screen.draw(&picture),
        Err(why) => screen.say(&why),
    }
}

/// The code in characters, each of which has two modules, one above the other.
fn picture(text: &str, size: Size, colours: bool) -> Result<String, String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L)
        .map_err(|_| "This is too long for a QR code.".to_owned())?;
    let width = code.width();
    let (columns, rows) = (width + 2 * QUIET, (width + 2 * QUIET).div_ceil(2));
    if columns > size.columns || rows >= size.rows {
        return Err(format!(
            "This terminal is too small for the QR code, which needs {columns} columns and {} \
             lines: it has {} and {}.",
            rows + 1,
            size.columns,
            size.rows
        ));
    }
    let is_light = |x: usize, y: usize| {
        let inside = |at: usize| (QUIET..QUIET + width).contains(&at);
        !(inside(x) && inside(y) && code[(x - QUIET, y - QUIET)] == Color::Dark)
    };
    let mut picture = String::new();
    for row in 0..rows {
        let line = (0..columns).map(|x| match (is_light(x, 2 * row), is_light(x, 2 * row + 1)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        });
        let line: String = line.collect();
        let written = match colours {
            true => writeln!(picture, "{COLOURS}{line}{RESET}"),
            false => writeln!(picture, "{line}"),
        };
        written.expect("a String takes everything");
    }
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules of a picture, dark ones as `true`.
    fn modules(picture: &str) -> Vec<Vec<bool>> {
        let rows = picture.lines().flat_map(|line| {
            let halves = |light: [char; 2]| line.chars().map(|c| !light.contains(&c)).collect();
            [halves(['█', '▀']), halves(['█', '▄'])]
        });
        rows.collect()
    }

    #[test]
    fn the_picture_is_the_code_with_its_quiet_zone() {
        let text = "mw1aaaqeayeaudaonmaolldmwea2gxoumu236iscobykhwsdiuohn26szoq2lgrm";
        let size = Size {
            columns: 80,
            rows: 40,
        };
        let plain = picture(text, size, false).unwrap();
        let code = QrCode::with_error_correction_level(text, EcLevel::L).unwrap();
        let modules = modules(&plain);
        let width = code.width();
        assert!(modules.iter().all(|row| row.len() == width + 2 * QUIET));
        for (y, row) in modules.iter().enumerate() {
            for (x, dark) in row.iter().enumerate() {
                let at = (x.wrapping_sub(QUIET), y.wrapping_sub(QUIET));
                let inside = at.0 < width && at.1 < width;
                assert_eq!(*dark, inside && code[at] == Color::Dark, "{x}, {y}");
            }
        }
        let coloured = picture(text, size, true).unwrap();
        assert_eq!(coloured.replace(COLOURS, "").replace(RESET, ""), plain);
    }

    #[test]
    fn a_terminal_that_is_too_small_is_told() {
        let size = |columns, rows| Size { columns, rows };
        // Version 2 has 25 modules on a side.
        let text = "7-guitar-saddle-orbit-and-more";
        assert!(picture(text, size(33, 18), false).is_ok());
        for (columns, rows) in [(32, 18), (33, 17)] {
            let told = picture(text, size(columns, rows), false).unwrap_err();
            assert_eq!(
                told,
                format!(
                    "This terminal is too small for the QR code, which needs 33 columns and 18 \
                     lines: it has {columns} and {rows}."
                )
            );
        }
        picture(&"x".repeat(3000), size(1000, 1000), false).unwrap_err();
    }
}
