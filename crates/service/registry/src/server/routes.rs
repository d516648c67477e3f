//! The routes and their handlers. The OpenAPI description is generated from the same lines.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::asked::{Asked, Param, json};
use super::metrics::{DESCRIPTION, HEALTH, counted};
use crate::api::{
    About, Answer, AnswerOffer, AskVouchers, Call, Callers, Challenge, ClientEnrolled, EnrolClient,
    EnrolRelay, Enrolled, ErrorBody, HEARTBEAT_S, LEASE_S, Listen, Listener, MAX_WAIT_S, Offer,
    OpenMailbox, OpenedMailbox, Parcel, Renewed, SendParcel, TakeOffer, Vouchers, WatchMailbox,
};
use crate::core::LEASE;
use crate::{Problem, Record};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "manyway registry",
        description = "Which relays there are, who may use them, where peers behind NAT meet, and \
            mailboxes for one-time codes. \
            Every answer that isn't 2xx has an error with a code for programs and a message that \
            says how to mend it."
    ),
    modifiers(&Bearer)
)]
struct Description;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

fn described() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(about))
        .routes(routes!(challenge))
        .routes(routes!(enrol_relay))
        .routes(routes!(heartbeat))
        .routes(routes!(leave))
        .routes(routes!(enrol_client))
        .routes(routes!(vouchers))
        .routes(routes!(listen))
        .routes(routes!(call))
        .routes(routes!(open_mailbox))
        .routes(routes!(take_offer))
        .routes(routes!(answer_offer))
        .routes(routes!(watch_mailbox))
        .routes(routes!(send_parcel))
}

/// The OpenAPI description, as JSON.
pub fn openapi() -> String {
    let (_, description) = described().split_for_parts();
    description.to_pretty_json().expect("it is made of strings") + "\n"
}

pub(super) fn router(app: Arc<App>) -> Router {
    let description = openapi();
    let (router, _) = described().split_for_parts();
    let json = [(CONTENT_TYPE, "application/json")];
    router
        .route(
            DESCRIPTION,
            axum::routing::get(async move || (json, description.clone())),
        )
        .route(HEALTH, axum::routing::get(async || "ok\n"))
        .fallback(async || Problem::NotFound)
        .method_not_allowed_fallback(async || Problem::Method)
        .layer(from_fn_with_state(Arc::clone(&app), counted))
        .with_state(app)
}

/// Who the registry is
#[utoipa::path(get, path = "/v1/registry",
    responses((status = 200, body = About), (status = 429, body = ErrorBody)))]
async fn about(State(app): State<Arc<App>>) -> Response {
    json(&app.about)
}

/// Get something to sign, for the enrolment of a relay
#[utoipa::path(get, path = "/v1/challenge",
    responses((status = 200, body = Challenge), (status = 429, body = ErrorBody)))]
async fn challenge(State(app): State<Arc<App>>) -> Response {
    let challenge = app.core().challenge(app.clock.now());
    json(&Challenge { challenge })
}

/// Enrol a relay, with a relay's token as bearer
///
/// The registry sends a HELLO to each address, over TCP too if the relay says so, and enrols it
/// once all are answered.
#[utoipa::path(
    post,
    path = "/v1/relays",
    request_body = EnrolRelay,
    security(("bearer" = [])),
    responses(
        (status = 200, body = Enrolled),
        (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody),
        (status = 403, body = ErrorBody),
        (status = 409, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 422, body = ErrorBody),
        (status = 429, body = ErrorBody),
        (status = 503, body = ErrorBody)
    )
)]
async fn enrol_relay(State(app): State<Arc<App>>, asked: Asked) -> Result<Response, Problem> {
    let request: EnrolRelay = asked.read()?;
    let now = app.clock.now();
    let candidate = app
        .core()
        .enrol_relay(now, asked.from, &asked.bearer, &request)?;
    asked.place.prove();
    let record = candidate.record;
    prove(&app, &record).await?;
    // Others may have taken the room meanwhile.
    let (relay, owner) = (record.relay, Arc::clone(&record.owner));
    app.core().room(&relay, &owner, record.challenged)?;
    match app.store.enrol(&record).await {
        Ok(true) => {}
        Ok(false) => return Err(Problem::Repeated),
        Err(error) => return Err(app.store_failed(&error)),
    }
    tracing::info!(relay = %record.relay, owner = %record.owner, "enrolled");
    let mut core = app.core();
    let lease = core.lease(&record);
    let expires = match app.store.ends_leases() {
        true => Duration::MAX,
        false => app.clock.now() + LEASE,
    };
    // The relay may have sent the same enrolment twice.
    let known = core.relays().get(&record.relay);
    if known.is_some_and(|known| known.challenged > record.challenged)
        || known.is_some_and(|known| {
            known.challenged == record.challenged && known.lease != record.lease
        })
    {
        return Err(Problem::Repeated);
    }
    core.relays_mut().insert(record, expires);
    Ok(json(&Enrolled {
        lease,
        heartbeat_s: HEARTBEAT_S,
        lease_s: LEASE_S,
    }))
}

/// Probe all addresses at once; there are at most eight.
async fn prove(app: &Arc<App>, record: &Record) -> Result<(), Problem> {
    let mut probes = tokio::task::JoinSet::new();
    for &address in &record.addresses {
        let (app, relay, tcp) = (Arc::clone(app), record.relay, record.tcp);
        probes.spawn(async move {
            let may_repeat = || app.core().hello(app.clock.now(), address, 1);
            if !app.prober.probe(relay, address, may_repeat).await {
                return Err(Problem::Unproved(address));
            }
            match tcp && !app.prober.probe_over_tcp(relay, address).await? {
                true => Err(Problem::NoTcp(address)),
                false => Ok(()),
            }
        });
    }
    while let Some(probed) = probes.join_next().await {
        probed.unwrap_or(Err(Problem::Store))?;
    }
    Ok(())
}

/// Renew a lease, which is the bearer
#[utoipa::path(
    post,
    path = "/v1/heartbeat",
    security(("bearer" = [])),
    responses(
        (status = 200, body = Renewed),
        (status = 401, body = ErrorBody),
        (status = 410, body = ErrorBody),
        (status = 429, body = ErrorBody),
        (status = 503, body = ErrorBody)
    )
)]
async fn heartbeat(State(app): State<Arc<App>>, asked: Asked) -> Result<Response, Problem> {
    let now = app.clock.now();
    let lease = {
        let mut core = app.core();
        let lease = core.open_lease(now, asked.from, &asked.bearer)?;
        if core.superseded(&lease) {
            return Err(Problem::LeaseEnded);
        }
        if core.has_lost_token(&lease) {
            return Err(Problem::Revoked);
        }
        lease
    };
    let renewed = match app.store.renew(lease.number).await {
        Ok(Some(renewed)) => renewed,
        Ok(None) => app.core().renew(now, &lease),
        Err(error) => return Err(app.store_failed(&error)),
    };
    if !renewed {
        return Err(Problem::LeaseEnded);
    }
    asked.place.prove();
    Ok(json(&Renewed { lease_s: LEASE_S }))
}

/// Give up a lease, which is the bearer: nobody is sent to the relay any more
#[utoipa::path(post, path = "/v1/leave", security(("bearer" = [])),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 410, body = ErrorBody),
              (status = 429, body = ErrorBody), (status = 503, body = ErrorBody)))]
async fn leave(State(app): State<Arc<App>>, asked: Asked) -> Result<StatusCode, Problem> {
    let now = app.clock.now();
    let record = {
        let mut core = app.core();
        let lease = core.open_lease(now, asked.from, &asked.bearer)?;
        let known = core.relays().get(&lease.relay).cloned();
        let known = known.filter(|record| record.lease == lease.number && !record.left);
        known.ok_or(Problem::LeaseEnded)?
    };
    app.store
        .leave(&record)
        .await
        .map_err(|error| app.store_failed(&error))?;
    asked.place.prove();
    tracing::info!(relay = %record.relay, "left");
    // The entry stays to detect a replayed enrolment.
    let left = Record {
        left: true,
        ..record
    };
    let expires = match app.store.ends_leases() {
        true => Duration::MAX,
        false => now + LEASE,
    };
    app.core().relays_mut().insert(left, expires);
    Ok(StatusCode::NO_CONTENT)
}

/// Enrol a client, with a client's token as bearer
#[utoipa::path(
    post,
    path = "/v1/clients",
    request_body = EnrolClient,
    security(("bearer" = [])),
    responses(
        (status = 200, body = ClientEnrolled),
        (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody)
    )
)]
async fn enrol_client(State(app): State<Arc<App>>, asked: Asked) -> Result<Response, Problem> {
    let request: EnrolClient = asked.read()?;
    let now = app.clock.now();
    let enrolled = app
        .core()
        .enrol_client(now, asked.from, &asked.bearer, &request);
    let (credential, expires) = enrolled?;
    asked.place.prove();
    Ok(json(&ClientEnrolled {
        credential,
        expires,
    }))
}

/// Get relays and vouchers for them, with a credential as bearer
#[utoipa::path(
    post,
    path = "/v1/vouchers",
    request_body = AskVouchers,
    security(("bearer" = [])),
    responses(
        (status = 200, body = Vouchers),
        (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody)
    )
)]
async fn vouchers(State(app): State<Arc<App>>, asked: Asked) -> Result<Response, Problem> {
    let request: AskVouchers = asked.read()?;
    let now = app.clock.now();
    let relays = app
        .core()
        .vouchers(now, asked.from, &asked.bearer, &request)?;
    asked.place.prove();
    Ok(json(&Vouchers { relays }))
}

/// Be found by those who know the name, and learn who calls; with a credential as bearer
#[utoipa::path(
    put,
    path = "/v1/meetings/{name}",
    request_body = Listen,
    security(("bearer" = [])),
    params((
        "name" = String,
        Path,
        description = "16 bytes that the ticket's secret gives, in base64url"
    )),
    responses(
        (status = 200, body = Callers),
        (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody),
        (status = 403, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody),
        (status = 503, body = ErrorBody)
    )
)]
async fn listen(
    State(app): State<Arc<App>>,
    Param(name): Param<String>,
    asked: Asked,
) -> Result<Response, Problem> {
    let request: Listen = asked.read()?;
    let now = app.clock.now();
    let name = app
        .core()
        .listen(now, asked.from, &asked.bearer, &name, &request)?;
    asked.place.prove();
    let calls = &app.calls[usize::from(name[0])];
    let callers = wait_for(&app, calls, request.wait_s, || {
        let callers = app.core().callers(app.clock.now(), &name);
        Ok((!callers.is_empty()).then_some(callers))
    });
    let callers = callers.await?.unwrap_or_default();
    Ok(json(&Callers { callers }))
}

/// Looks now and after each notice, for so long, until there is something.
async fn wait_for<T>(
    app: &App,
    notice: &Notify,
    wait_s: u32,
    mut look: impl FnMut() -> Result<Option<T>, Problem>,
) -> Result<Option<T>, Problem> {
    let until = Instant::now() + Duration::from_secs(wait_s.min(MAX_WAIT_S).into());
    // If too many wait, this one has to ask again sooner.
    let permit = app.waiting.try_acquire();
    let waits = permit.is_ok();
    loop {
        let noticed = notice.notified();
        let mut noticed = std::pin::pin!(noticed);
        noticed.as_mut().enable();
        let found = look()?;
        if found.is_some() || !waits || timeout_at(until, noticed).await.is_err() {
            return Ok(found);
        }
    }
}

/// Call a listener, and learn what it has left
#[utoipa::path(
    post,
    path = "/v1/meetings/{name}/callers",
    request_body = Call,
    params(("name" = String, Path, description = "As the listener's")),
    responses(
        (status = 200, body = Listener),
        (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody)
    )
)]
async fn call(
    State(app): State<Arc<App>>,
    Param(name): Param<String>,
    asked: Asked,
) -> Result<Response, Problem> {
    let request: Call = asked.read()?;
    let now = app.clock.now();
    let (name, sealed) = app.core().call(now, asked.from, &name, &request)?;
    app.calls[usize::from(name[0])].notify_waiters();
    Ok(json(&Listener { sealed }))
}

/// Open a mailbox for a one-time code; with a credential as bearer
#[utoipa::path(
    post,
    path = "/v1/mailboxes",
    request_body = OpenMailbox,
    security(("bearer" = [])),
    responses(
        (status = 200, body = OpenedMailbox),
        (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody),
        (status = 503, body = ErrorBody)
    )
)]
async fn open_mailbox(State(app): State<Arc<App>>, asked: Asked) -> Result<Response, Problem> {
    let request: OpenMailbox = asked.read()?;
    let now = app.clock.now();
    let mut core = app.core();
    let number = core.open_mailbox(now, asked.from, &asked.bearer, &request)?;
    asked.place.prove();
    let life_s = u32::try_from(core.code_life().as_secs()).unwrap_or(u32::MAX);
    Ok(json(&OpenedMailbox { number, life_s }))
}

/// Become a mailbox's only guest, and get the host's offer
#[utoipa::path(
    post,
    path = "/v1/mailboxes/{number}/guest",
    request_body = TakeOffer,
    params(("number" = u32, Path, description = "The mailbox's")),
    responses(
        (status = 200, body = Offer),
        (status = 400, body = ErrorBody),
        (status = 403, body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody),
        (status = 410, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody)
    )
)]
async fn take_offer(
    State(app): State<Arc<App>>,
    Param(number): Param<u32>,
    asked: Asked,
) -> Result<Response, Problem> {
    let request: TakeOffer = asked.read()?;
    let now = app.clock.now();
    let offer = app.core().take_offer(now, asked.from, number, &request)?;
    app.mail[number as usize % 256].notify_waiters();
    Ok(json(&Offer { offer }))
}

/// As the guest: leave an answer, and get the host's parcel
#[utoipa::path(
    post,
    path = "/v1/mailboxes/{number}/answer",
    request_body = AnswerOffer,
    params(("number" = u32, Path, description = "The mailbox's")),
    responses(
        (status = 200, body = Parcel),
        (status = 400, body = ErrorBody),
        (status = 403, body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody),
        (status = 410, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody)
    )
)]
async fn answer_offer(
    State(app): State<Arc<App>>,
    Param(number): Param<u32>,
    asked: Asked,
) -> Result<Response, Problem> {
    let request: AnswerOffer = asked.read()?;
    let now = app.clock.now();
    app.core().answer_offer(now, asked.from, number, &request)?;
    let mail = &app.mail[number as usize % 256];
    mail.notify_waiters();
    let parcel = wait_for(&app, mail, request.wait_s, || {
        app.core().parcel(app.clock.now(), number, &request)
    });
    let parcel = parcel.await?;
    Ok(json(&Parcel { parcel }))
}

/// As the host: wait for the guest's answer
#[utoipa::path(
    post,
    path = "/v1/mailboxes/{number}/host",
    request_body = WatchMailbox,
    params(("number" = u32, Path, description = "The mailbox's")),
    responses(
        (status = 200, body = Answer),
        (status = 400, body = ErrorBody),
        (status = 403, body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody),
        (status = 410, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody)
    )
)]
async fn watch_mailbox(
    State(app): State<Arc<App>>,
    Param(number): Param<u32>,
    asked: Asked,
) -> Result<Response, Problem> {
    let request: WatchMailbox = asked.read()?;
    let now = app.clock.now();
    app.core().admit_host(now, asked.from, number, &request)?;
    asked.place.prove();
    let mail = &app.mail[number as usize % 256];
    let answer = wait_for(&app, mail, request.wait_s, || {
        app.core().answer(app.clock.now(), number, &request)
    });
    let answer = answer.await?;
    Ok(json(&Answer { answer }))
}

/// As the host: leave the parcel, or say that the guest's words are wrong
#[utoipa::path(
    post,
    path = "/v1/mailboxes/{number}/parcel",
    request_body = SendParcel,
    params(("number" = u32, Path, description = "The mailbox's")),
    responses(
        (status = 204),
        (status = 400, body = ErrorBody),
        (status = 403, body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody),
        (status = 410, body = ErrorBody),
        (status = 413, body = ErrorBody),
        (status = 429, body = ErrorBody)
    )
)]
async fn send_parcel(
    State(app): State<Arc<App>>,
    Param(number): Param<u32>,
    asked: Asked,
) -> Result<StatusCode, Problem> {
    let request: SendParcel = asked.read()?;
    let now = app.clock.now();
    app.core().reply(now, asked.from, number, &request)?;
    app.mail[number as usize % 256].notify_waiters();
    Ok(StatusCode::NO_CONTENT)
}
