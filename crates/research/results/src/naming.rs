//! How texts refer to the points of a sweep. This module only formats; it decides nothing about
//! what is shown or written.

use manyway_scenario::Point;

/// What a point sets, to go before something else: `law = lia, `.
pub fn setting(point: &Point) -> String {
    let pairs = point.set.iter();
    pairs
        .map(|(key, value)| format!("{key} = {value}, "))
        .collect()
}

/// What a sweep sets at a point: `law = lia, repeat = 2`.
pub fn heading<'a>(set: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pairs = set
        .into_iter()
        .map(|(key, value)| format!("{key} = {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}
