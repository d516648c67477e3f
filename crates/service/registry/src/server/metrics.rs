//! Counts requests: against the budgets of their sources, and for `Handle::to_prometheus`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use manyway_relay::exposition::Exposition;

use super::App;
use super::accept::From;
use crate::Problem;

pub(super) const DESCRIPTION: &str = "/v1/openapi.json";
pub(super) const HEALTH: &str = "/health";

/// How many requests had which result, by path. The routes' paths and the results are a fixed set,
/// so its size is bounded.
#[derive(Default)]
pub(super) struct Requests(Mutex<BTreeMap<String, BTreeMap<&'static str, u64>>>);

/// The code of a problem, beside its answer.
#[derive(Copy, Clone)]
pub(super) struct Refused(pub(super) &'static str);

/// The path of requests for something that isn't there, and the result of unforeseen answers.
const OTHER: &str = "other";

impl Requests {
    fn count(&self, path: &str, result: &'static str) {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !paths.contains_key(path) {
            paths.insert(path.to_owned(), BTreeMap::new());
        }
        let results = paths.get_mut(path);
        *results.expect("it is there").entry(result).or_default() += 1;
    }

    pub(super) fn expose(&self, text: &mut Exposition) {
        let name = "manyway_registry_requests_total";
        let help = "Requests answered, by path and by `ok` or the error's code.";
        text.family(name, "counter", help);
        let paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, results) in &*paths {
            for (result, count) in results {
                text.sample(name, &[("path", path), ("result", result)], count);
            }
        }
    }
}

/// What a request weighs before its body is read; handlers add to that. The description is long,
/// and monitors may ask for the health at any rate.
fn weight(path: &str) -> u64 {
    match path {
        HEALTH => 0,
        DESCRIPTION => 10,
        _ => 1,
    }
}

/// Counts a request against its source's budget, whatever it is, and once it has its answer.
pub(super) async fn counted(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or(OTHER, MatchedPath::as_str);
    let admitted = match request.extensions().get::<From>() {
        Some(from) => app
            .core()
            .charge(app.clock.now(), from.address, weight(path)),
        None => Err(Problem::NotFound),
    };
    let response = match admitted {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    app.requests.count(path, result(&response));
    response
}

fn result(response: &Response) -> &'static str {
    match response.extensions().get::<Refused>() {
        Some(refused) => refused.0,
        None if response.status().is_success() => "ok",
        // Not of our making.
        None => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn only_successes_are_ok() {
        for (response, expected) in [
            ("x".into_response(), "ok"),
            (StatusCode::NO_CONTENT.into_response(), "ok"),
            (StatusCode::BAD_REQUEST.into_response(), OTHER),
            (StatusCode::PERMANENT_REDIRECT.into_response(), OTHER),
            (Problem::Rate.into_response(), "rate"),
        ] {
            assert_eq!(result(&response), expected, "{response:?}");
        }
    }
}
