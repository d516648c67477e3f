//! Lines and stacked areas over time, as SVG. A plot scales, colours and labels what it is given;
//! it checks the points and computes none.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// How the series of a [`Plot`] are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Each series is a line of its own; the legend stands beside them, where it hides nothing.
    Lines,
    /// Each series is a band that stands on the one before it; the top edge is their sum. All
    /// series need the same x values.
    Stacked,
}

/// A named sequence of points, in the order they are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// (x, y), both finite.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// The same line with at most four points in each of `columns` equal parts of its x range: the
    /// first, the last, the least and the greatest. Drawn on that many pixels it looks no
    /// different, peaks included (M4: Jugel et al., VLDB 2014).
    ///
    /// The points' x values must not decrease. Not for the series of a stack, which need the same x
    /// values in all.
    #[must_use]
    pub fn thinned(mut self, columns: usize) -> Self {
        let columns = columns.max(1);
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return self;
        };
        if self.points.len() <= 4 * columns {
            return self;
        }
        let (left, width) = (first.0, (last.0 - first.0) / columns as f64);
        let column = |point: &(f64, f64)| (((point.0 - left) / width) as usize).min(columns - 1);
        let parts = self.points.chunk_by(|a, b| column(a) == column(b));
        self.points = parts.flat_map(corners).collect();
        self
    }
}

/// First, least, greatest and last of some points, each once, in their order.
fn corners(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let by_y = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
    let least = (0..points.len()).min_by(by_y).unwrap_or(0);
    let greatest = (0..points.len()).max_by(by_y).unwrap_or(0);
    let mut chosen = [0, least, greatest, points.len() - 1];
    chosen.sort_unstable();
    let kept = (0..4).filter(move |&n| n == 0 || chosen[n] != chosen[n - 1]);
    kept.map(move |n| points[chosen[n]])
}

/// A vertical line with a label: "the path goes dark here".
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Where on the x axis.
    pub x: f64,
    /// The text to its right.
    pub label: String,
}

/// A plot with a title, two axes, a legend and any number of series. The x axis covers the points
/// and marks; the y axis runs from 0 (or the least value, when negative) to a little above the
/// greatest.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// The line above the plot.
    pub title: String,
    /// The x axis' name and unit.
    pub x_label: String,
    /// The y axis' name and unit.
    pub y_label: String,
    /// Lines or a stack.
    pub kind: Kind,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
    /// Vertical lines at moments of interest.
    pub marks: Vec<Mark>,
    /// (width, height) in pixels.
    pub size: (u32, u32),
}

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlotError {
    /// A point is NaN or infinite.
    #[error("series {series:?} has a point that isn't finite: leave such points out")]
    NotFinite {
        /// The series' name.
        series: String,
    },
    /// A stack's series don't share their x values.
    #[error("series {series:?} has other x values than the first: a stack needs the same in all")]
    UnequalPoints {
        /// The series' name.
        series: String,
    },
    /// The drawing library refused.
    #[error("drawing {title:?}: {reason}")]
    Drawing {
        /// The plot's title.
        title: String,
        /// The library's words.
        reason: String,
    },
}

/// Okabe and Ito's colours: distinct for colour-blind readers too.
pub(crate) const COLOURS: [RGBColor; Plot::DISTINCT] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(110, 110, 110),
    RGBColor(0, 0, 0),
];
pub(crate) const FONT: &str = "sans-serif";

impl Plot {
    /// Number of series that readers can tell apart; with more, colours repeat.
    pub const DISTINCT: usize = 8;

    /// An empty plot of 800 × 400 pixels.
    pub fn new(title: impl Into<String>, kind: Kind) -> Self {
        Self {
            title: title.into(),
            x_label: String::new(),
            y_label: String::new(),
            kind,
            series: Vec::new(),
            marks: Vec::new(),
            size: (800, 400),
        }
    }

    /// The plot as an SVG document.
    ///
    /// # Errors
    ///
    /// A point that isn't finite, and a stack whose series have different x values.
    pub fn svg(&self) -> Result<String, PlotError> {
        self.check()?;
        let mut text = String::new();
        self.draw(&mut text).map_err(|error| PlotError::Drawing {
            title: self.title.clone(),
            reason: error.to_string(),
        })?;
        Ok(text)
    }

    fn check(&self) -> Result<(), PlotError> {
        let first = self.series.first().map(|series| &series.points);
        for series in &self.series {
            let name = || series.name.clone();
            if series
                .points
                .iter()
                .any(|(x, y)| !x.is_finite() || !y.is_finite())
            {
                return Err(PlotError::NotFinite { series: name() });
            }
            let same = first.is_some_and(|first| {
                first.len() == series.points.len()
                    && first.iter().zip(&series.points).all(|(a, b)| a.0 == b.0)
            });
            if self.kind == Kind::Stacked && !same {
                return Err(PlotError::UnequalPoints { series: name() });
            }
        }
        Ok(())
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(text, self.size).into_drawing_area();
        area.fill(&WHITE)?;
        let bands = self.bands();
        let ((left, right), (bottom, top)) = self.extent(&bands);
        let beside = match self.kind {
            Kind::Lines => self.legend_width(),
            Kind::Stacked => 0,
        };
        let (plot, side) = area.split_horizontally(self.size.0 - beside);
        let mut chart = ChartBuilder::on(&plot)
            .caption(&self.title, (FONT, 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(left..right, bottom..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .axis_style(BLACK.mix(0.5))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .label_style((FONT, 13))
            .x_label_formatter(&|x| tick(*x))
            .y_label_formatter(&|y| tick(*y))
            .draw()?;

        for (index, band) in bands.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let drawn = match self.kind {
                Kind::Lines => chart.draw_series(LineSeries::new(
                    band.upper.iter().copied(),
                    colour.stroke_width(2),
                ))?,
                Kind::Stacked => chart.draw_series(std::iter::once(Polygon::new(
                    band.outline(),
                    colour.mix(0.75).filled(),
                )))?,
            };
            drawn.label(band.name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled())
            });
        }
        for mark in &self.marks {
            let line = [(mark.x, bottom), (mark.x, top)];
            chart.draw_series(LineSeries::new(line, BLACK.mix(0.6)))?;
            let style = (FONT, 13)
                .into_text_style(&area)
                .pos(Pos::new(HPos::Left, VPos::Top));
            chart.draw_series(std::iter::once(
                EmptyElement::at((mark.x, top)) + Text::new(mark.label.clone(), (5, 3), style),
            ))?;
        }
        if self.kind == Kind::Lines {
            self.draw_legend(&side)?;
        } else if !self.series.is_empty() {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerRight)
                .margin(12)
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK.mix(0.2))
                .label_font((FONT, 13))
                .draw()?;
        }
        area.present()?;
        Ok(())
    }

    /// Pixels that the names take, as far as that can be told without the font; at most half of the
    /// picture.
    fn legend_width(&self) -> u32 {
        let longest = self
            .series
            .iter()
            .map(|series| series.name.chars().count())
            .max();
        longest.map_or(0, |longest| (longest as u32 * 8 + 34).min(self.size.0 / 2))
    }

    fn draw_legend<D: DrawingBackend>(
        &self,
        side: &DrawingArea<D, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<D::ErrorType>> {
        for (index, series) in self.series.iter().enumerate() {
            let y = 48 + 20 * index as i32;
            let colour = COLOURS[index % COLOURS.len()];
            side.draw(&Rectangle::new([(4, y - 2), (18, y + 2)], colour.filled()))?;
            let style = (FONT, 13)
                .into_text_style(side)
                .pos(Pos::new(HPos::Left, VPos::Center));
            side.draw(&Text::new(series.name.as_str(), (24, y), style))?;
        }
        Ok(())
    }

    /// What is drawn of each series: a line is a band without a lower edge.
    fn bands(&self) -> Vec<Band<'_>> {
        let mut floor: Vec<(f64, f64)> = Vec::new();
        let mut bands = Vec::with_capacity(self.series.len());
        for series in &self.series {
            let mut upper = series.points.clone();
            if self.kind == Kind::Stacked {
                for (point, below) in upper.iter_mut().zip(&floor) {
                    point.1 += below.1;
                }
                if floor.is_empty() {
                    floor = upper.iter().map(|(x, _)| (*x, 0.0)).collect();
                }
            }
            let lower = std::mem::replace(&mut floor, upper.clone());
            bands.push(Band {
                name: &series.name,
                upper,
                lower,
            });
        }
        bands
    }

    /// ((least x, greatest x), (least y, greatest y)), never empty ranges.
    fn extent(&self, bands: &[Band<'_>]) -> ((f64, f64), (f64, f64)) {
        let points = bands.iter().flat_map(|band| band.upper.iter());
        let xs = points
            .clone()
            .map(|point| point.0)
            .chain(self.marks.iter().map(|mark| mark.x));
        let ys = points.map(|point| point.1);
        let (left, right) = range(xs);
        let (bottom, top) = range(ys.chain([0.0]));
        ((left, right), (bottom, bottom + (top - bottom) * 1.12))
    }
}

struct Band<'a> {
    name: &'a str,
    upper: Vec<(f64, f64)>,
    lower: Vec<(f64, f64)>,
}

impl Band<'_> {
    /// Along the upper edge and back along the lower.
    fn outline(&self) -> Vec<(f64, f64)> {
        let back = self.lower.iter().rev();
        self.upper.iter().chain(back).copied().collect()
    }
}

pub(crate) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    match (low.is_finite(), low < high) {
        (false, _) => (0.0, 1.0),
        (true, false) => (low, low + 1.0),
        (true, true) => (low, high),
    }
}

/// A tick's number without noise: 20, 0.5, 1000000.
pub(crate) fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series {
            name: name.to_owned(),
            points: points.to_vec(),
        }
    }

    fn sample(kind: Kind) -> Plot {
        let mut plot = Plot::new("Rate of each path <all & any>", kind);
        plot.x_label = "time (s)".to_owned();
        plot.y_label = "Mbps".to_owned();
        plot.series = vec![
            series(
                "path 1",
                &[(0.0, 0.0), (1.0, 38.0), (2.0, 39.5), (3.0, 40.0)],
            ),
            series(
                "path 2",
                &[(0.0, 0.0), (1.0, 0.0), (2.0, 15.0), (3.0, 19.0)],
            ),
        ];
        plot.marks = vec![Mark {
            x: 1.0,
            label: "all paths".to_owned(),
        }];
        plot
    }

    #[test]
    fn lines() {
        insta::assert_snapshot!(sample(Kind::Lines).svg().unwrap());
    }

    #[test]
    fn stacked() {
        insta::assert_snapshot!(sample(Kind::Stacked).svg().unwrap());
    }

    #[test]
    fn nothing_to_draw_is_still_a_picture() {
        let svg = Plot::new("nothing", Kind::Lines).svg().unwrap();
        assert!(svg.contains("nothing") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_stack_stands_on_its_first_series() {
        let plot = sample(Kind::Stacked);
        let bands = plot.bands();
        assert_eq!(bands[0].lower[2], (2.0, 0.0));
        assert_eq!(bands[1].lower, bands[0].upper);
        assert_eq!(bands[1].upper[3], (3.0, 59.0));
    }

    #[test]
    fn a_thinned_line_keeps_its_peaks() {
        let sawtooth = |n: u32| f64::from(n % 97);
        let points: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), sawtooth(n))).collect();
        let whole = series("window", &points);
        let thin = whole.clone().thinned(50);
        assert!(thin.points.len() <= 200, "{}", thin.points.len());
        assert!(thin.points.is_sorted_by(|a, b| a.0 < b.0));
        assert!(thin.points.iter().all(|point| points.contains(point)));
        assert_eq!(
            (thin.points[0], *thin.points.last().unwrap()),
            (points[0], points[9999])
        );
        // Every part of 200 points is longer than two teeth: each has its whole height.
        let heights = thin.points.iter().filter(|point| point.1 == 96.0).count();
        assert!(heights >= 50, "{heights}");

        assert_eq!(whole.clone().thinned(2500), whole, "few enough");
        let upright = series("", &[(1.0, 2.0); 9]).thinned(1);
        assert_eq!(upright.points, [(1.0, 2.0); 2]);
        assert_eq!(series("", &[]).thinned(0).points, []);
    }

    #[test]
    fn bad_points_are_named() {
        let mut plot = sample(Kind::Lines);
        plot.series[1].points[0].1 = f64::NAN;
        assert_eq!(
            plot.svg(),
            Err(PlotError::NotFinite {
                series: "path 2".to_owned()
            })
        );
        let mut plot = sample(Kind::Stacked);
        plot.series[1].points.pop();
        assert_eq!(
            plot.svg(),
            Err(PlotError::UnequalPoints {
                series: "path 2".to_owned()
            })
        );
    }

    #[test]
    fn ticks_have_no_noise() {
        assert_eq!(
            [0.0, -0.0001, 20.0, 0.5, 1_000_000.0].map(tick),
            ["0", "0", "20", "0.5", "1000000"]
        );
    }
}
