//! What a request consists of, and what its answer is made of.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::App;
use super::accept::From;
use super::metrics::Refused;
use super::places::Place;
use crate::Problem;
use crate::api::MAX_BODY;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let mut response = json(&self.body());
        *response.status_mut() = status;
        response.extensions_mut().insert(Refused(self.code()));
        response
    }
}

pub(super) fn json<T: Serialize>(value: &T) -> Response {
    let text = serde_json::to_vec(value).expect("our types are JSON");
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// A request, with its body.
pub(super) struct Asked {
    pub(super) from: SocketAddr,
    pub(super) place: Arc<Place>,
    pub(super) bearer: String,
    body: Bytes,
}

impl FromRequest<Arc<App>> for Asked {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let from = request.extensions().get::<From>();
        let From { address, place } = from.cloned().ok_or(Problem::NotFound)?;
        let bearer = request.headers().get(AUTHORIZATION);
        let bearer = bearer.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let bearer = bearer.unwrap_or_default().to_owned();
        let body = Limited::new(request.into_body(), MAX_BODY).collect();
        let body = match timeout(app.body, body).await {
            Err(_) => return Err(Problem::Slow),
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(Problem::TooLarge { limit: MAX_BODY });
            }
            Ok(Err(_)) => return Err(Problem::Slow),
        };
        // Not before: it costs nothing to begin a request.
        place.set_busy(true);
        Ok(Self {
            from: address,
            place,
            bearer,
            body,
        })
    }
}

impl Asked {
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        read(&self.body)
    }
}

/// A part of the path. If it is invalid, the answer doesn't repeat it, as `Path`'s would.
pub(super) struct Param<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for Param<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, app).await;
        let Path(param) = path.map_err(|_| Problem::Field {
            field: "the path",
            expected: "as /v1/openapi.json describes it",
        })?;
        Ok(Self(param))
    }
}

/// Parses a body. The error says where it is wrong and doesn't quote it, since it may be secret.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "a field is missing, unknown or of another type",
            _ => "it is no JSON",
        };
        Problem::Body(format!(
            "{what}, line {} column {}",
            error.line(),
            error.column()
        ))
    })
}
