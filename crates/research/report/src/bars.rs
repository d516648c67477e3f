//! Bars beside each other, in groups, with intervals, as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::plot::{COLOURS, FONT, PlotError, range, tick};

/// Groups of bars, with a bar of each series in each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The line above.
    pub title: String,
    /// The y axis' name and unit.
    pub y_label: String,
    /// The names of the series, in the order of the legend.
    pub series: Vec<String>,
    /// From left to right.
    pub groups: Vec<Group>,
}

/// Bars that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What stands below.
    pub name: String,
    /// One for each series; `None` leaves its place empty.
    pub bars: Vec<Option<Bar>>,
}

/// A bar.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Bar {
    /// Its height, finite.
    pub value: f64,
    /// Half the height of the line that shows how sure it is, finite.
    pub interval: Option<f64>,
}

/// Pixels of a bar's width.
const BAR: u32 = 22;
const HEIGHT: u32 = 400;
/// Pixels of the axis and the margins beside the bars.
const BESIDE: u32 = 90;
/// Pixels per character of a name.
const CHARACTER: u32 = 8;
/// Pixels that names stand below each other.
const LINE: i32 = 16;
/// Names stand in so many lines by turns, so that long ones don't meet.
const LINES: usize = 3;

impl Bars {
    /// The picture as an SVG document, as wide as its bars need.
    ///
    /// # Errors
    ///
    /// A value that isn't finite.
    pub fn svg(&self) -> Result<String, PlotError> {
        let named = || self.groups.iter().flat_map(|group| &group.bars);
        let finite = |bar: &Bar| bar.value.is_finite() && bar.interval.is_none_or(f64::is_finite);
        for (n, bar) in named().enumerate() {
            if !bar.as_ref().is_none_or(finite) {
                let series = self.series[n % self.series.len().max(1)].clone();
                return Err(PlotError::NotFinite { series });
            }
        }
        let mut text = String::new();
        self.draw(&mut text).map_err(|error| PlotError::Drawing {
            title: self.title.clone(),
            reason: error.to_string(),
        })?;
        Ok(text)
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let slots = self.series.len() + 1;
        let longest = |names: &mut dyn Iterator<Item = &String>| {
            names
                .map(|name| name.chars().count() as u32)
                .max()
                .unwrap_or(0)
        };
        let names = longest(&mut self.groups.iter().map(|group| &group.name)) * CHARACTER;
        // A name has the room of as many groups as there are lines.
        let group = (BAR * slots as u32).max(names / LINES as u32 + 8);
        let legend = longest(&mut self.series.iter()) * CHARACTER + 40;
        let bars = group * self.groups.len().max(1) as u32;
        let title = self.title.chars().count() as u32 * (CHARACTER + 2);
        let width = (bars + BESIDE + legend).max(title);
        let area = SVGBackend::with_string(text, (width, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let titled = area.titled(&self.title, (FONT, 18))?;
        let (left, side) = titled.split_horizontally(width - legend);
        let tops = self
            .groups
            .iter()
            .flat_map(|group| group.bars.iter().flatten());
        let tops = tops.map(|bar| bar.value + bar.interval.unwrap_or(0.0));
        let (bottom, top) = range(tops.chain([0.0]));
        let mut chart = ChartBuilder::on(&left)
            .margin(12)
            .x_label_area_size(LINE as u32 * LINES as u32 + 8)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..self.groups.len().max(1) as f64, bottom..top * 1.05)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .axis_style(BLACK.mix(0.5))
            .y_desc(&self.y_label)
            .label_style((FONT, 13))
            .y_label_formatter(&|y| tick(*y))
            .draw()?;
        let slot = 1.0 / slots as f64;
        for (n, group) in self.groups.iter().enumerate() {
            for (at, bar) in group.bars.iter().enumerate() {
                let Some(bar) = bar else { continue };
                let x = n as f64 + (at as f64 + 0.5) * slot;
                let colour = COLOURS[at % COLOURS.len()];
                let corners = [(x, 0.0), (x + slot * 0.9, bar.value)];
                chart.draw_series([Rectangle::new(corners, colour.mix(0.75).filled())])?;
                if let Some(interval) = bar.interval {
                    let middle = x + slot * 0.45;
                    let ends = [bar.value - interval, bar.value + interval];
                    let line = ends.map(|y| (middle, y));
                    chart.draw_series(LineSeries::new(line, BLACK.stroke_width(1)))?;
                    for y in ends {
                        let cap = [(middle - slot * 0.2, y), (middle + slot * 0.2, y)];
                        chart.draw_series(LineSeries::new(cap, BLACK.stroke_width(1)))?;
                    }
                }
            }
            let (x, y) = chart.backend_coord(&(n as f64 + 0.5, bottom.min(0.0)));
            let style = (FONT, 13).into_text_style(&area);
            let style = style.pos(Pos::new(HPos::Center, VPos::Top));
            let y = y + 6 + LINE * (n % LINES) as i32;
            area.draw(&Text::new(group.name.as_str(), (x, y), style))?;
        }
        for (n, name) in self.series.iter().enumerate() {
            let y = 24 + 20 * n as i32;
            let colour = COLOURS[n % COLOURS.len()];
            side.draw(&Rectangle::new(
                [(4, y - 5), (18, y + 5)],
                colour.mix(0.75).filled(),
            ))?;
            let style = (FONT, 13).into_text_style(&side);
            let style = style.pos(Pos::new(HPos::Left, VPos::Center));
            side.draw(&Text::new(name.as_str(), (24, y), style))?;
        }
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Bars {
        let bar = |value, interval| Some(Bar { value, interval });
        Bars {
            title: "Goodput by level".to_owned(),
            y_label: "Mbps".to_owned(),
            series: ["fluid", "packet"].map(str::to_owned).into(),
            groups: vec![
                Group {
                    name: "multi".to_owned(),
                    bars: vec![bar(9.0, None), bar(8.5, Some(0.4))],
                },
                Group {
                    name: "single".to_owned(),
                    bars: vec![None, bar(4.0, Some(0.1))],
                },
            ],
        }
    }

    #[test]
    fn bars() {
        insta::assert_snapshot!(sample().svg().unwrap());
    }

    #[test]
    fn a_bar_that_is_not_finite_is_named() {
        let mut bars = sample();
        bars.groups[1].bars[1] = Some(Bar {
            value: f64::NAN,
            interval: None,
        });
        let series = "packet".to_owned();
        assert_eq!(bars.svg(), Err(PlotError::NotFinite { series }));
    }

    #[test]
    fn nothing_to_draw_is_still_a_picture() {
        let mut bars = sample();
        bars.groups.clear();
        assert!(bars.svg().unwrap().trim_end().ends_with("</svg>"));
    }
}
