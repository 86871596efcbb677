//! Tickets: an address that a browser fetches by itself, where no header can go along, such as a
//! download or the content of a frame.
//!
//! A page asks for one with its credentials. The ticket then stands for them, once, for one address
//! and for a short time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::uri::PathAndQuery;
use axum::http::{Method, StatusCode, Uri};
use offshoot_core::{Error, ErrorCode, Result};
use offshoot_engine::random_hex;
use offshoot_wire as wire;

use crate::app::Shared;
use crate::auth::Caller;
use crate::error::{Answer, json};
use crate::extract::Json;
use crate::sign_in::hash;

/// How long a ticket waits for its request.
const LIVES: Duration = Duration::from_secs(60);
/// The most unused tickets of one credential; a further one takes the place of the oldest.
const MOST: usize = 64;
/// The longest address: a path of the largest size, each byte as three signs.
const MOST_ADDRESS: usize = 16 << 10;
const PARAMETER: &str = "ticket=";

struct Ticket {
    /// Of its code, so that timing tells nothing.
    hash: [u8; 32],
    secret: Arc<str>,
    /// Path and query without the ticket.
    address: String,
    ends: Instant,
}

/// The tickets that were not used yet.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<Vec<Ticket>>);

impl Tickets {
    /// The address with a new ticket in its query.
    fn issue(&self, secret: Arc<str>, address: &str) -> Result<String> {
        let code = random_hex()?;
        let sign = if address.contains('?') { '&' } else { '?' };
        let with_ticket = format!("{address}{sign}{PARAMETER}{code}");
        let mut tickets = self.lock();
        tickets.retain(|ticket| Instant::now() < ticket.ends);
        let of_caller = tickets.iter().filter(|ticket| ticket.secret == secret);
        if of_caller.count() >= MOST
            && let Some(oldest) = tickets.iter().position(|ticket| ticket.secret == secret)
        {
            tickets.remove(oldest);
        }
        tickets.push(Ticket {
            hash: hash(&code),
            secret,
            address: address.to_owned(),
            ends: Instant::now() + LIVES,
        });
        Ok(with_ticket)
    }

    /// The credential that the ticket of a request stands for, and the request's address without it.
    /// None if there is no ticket; it is used up either way.
    pub(crate) fn redeem(&self, method: &Method, uri: &Uri) -> Result<Option<(Arc<str>, Uri)>> {
        let Some((address, code)) = split(uri) else {
            return Ok(None);
        };
        let mut tickets = self.lock();
        let hash = hash(code);
        let found = tickets.iter().position(|ticket| ticket.hash == hash);
        let ticket = found.map(|place| tickets.remove(place)).filter(|ticket| {
            *method == Method::GET && ticket.address == address && Instant::now() < ticket.ends
        });
        let plain = address.parse().ok();
        let redeemed = ticket.and_then(|ticket| Some((ticket.secret, plain?)));
        redeemed.map(Some).ok_or_else(|| {
            Error::new(
                ErrorCode::Unauthorized,
                "this ticket was used before, is too old or is for something else",
            )
            .with_hint("`POST /api/v1/tickets` gives a new one")
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Ticket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An address without the ticket at its end, and the ticket.
fn split(uri: &Uri) -> Option<(&str, &str)> {
    let whole = uri.path_and_query()?.as_str();
    let (address, last) = whole.rsplit_once(['?', '&'])?;
    Some((address, last.strip_prefix(PARAMETER)?))
}

/// `POST /tickets`
pub(crate) async fn issue(
    State(app): State<Shared>,
    caller: Caller,
    Json(asked): Json<wire::NewTicket>,
) -> Answer {
    let address = asked.address;
    let uri = address.parse::<Uri>().ok().filter(|uri| {
        let same = uri.path_and_query().map(PathAndQuery::as_str) == Some(&address);
        same && address.starts_with("/api/") && address.len() <= MOST_ADDRESS
    });
    if uri.is_none_or(|uri| split(&uri).is_some()) {
        let error = Error::invalid("`address` is none of this API");
        let hint = "give a path with its query, such as `/api/v1/workspaces/w/archive?format=zip`";
        return Err(error.with_hint(hint).into());
    }
    let address = app.tickets.issue(caller.secret.clone(), &address)?;
    json(StatusCode::CREATED, &wire::Ticket { address })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn a_ticket_is_for_one_address_and_works_once() {
        let tickets = Tickets::default();
        let of = |address: &str| tickets.issue("ofs_a".into(), address).unwrap();
        for address in ["/api/v1/a", "/api/v1/a?b=c&d"] {
            let given = uri(&of(address));
            let (secret, plain) = tickets.redeem(&Method::GET, &given).unwrap().unwrap();
            assert_eq!((&*secret, plain), ("ofs_a", uri(address)));
            assert!(tickets.redeem(&Method::GET, &given).is_err(), "again");
        }
        let elsewhere = of("/api/v1/a").replace("/a?", "/b?");
        assert!(tickets.redeem(&Method::GET, &uri(&elsewhere)).is_err());
        let to_change = uri(&of("/api/v1/a"));
        assert!(tickets.redeem(&Method::DELETE, &to_change).is_err());
        let none = tickets.redeem(&Method::GET, &uri("/api/v1/a?b=c"));
        assert!(none.unwrap().is_none());
    }

    #[test]
    fn one_caller_takes_no_tickets_from_others() {
        let tickets = Tickets::default();
        let other = tickets.issue("ofs_b".into(), "/api/x").unwrap();
        let many: Vec<String> = (0..=MOST)
            .map(|_| tickets.issue("ofs_a".into(), "/api/x").unwrap())
            .collect();
        assert_eq!(tickets.lock().len(), MOST + 1);
        let works = |address: &str| tickets.redeem(&Method::GET, &uri(address)).is_ok();
        assert!(!works(&many[0]) && works(&many[1]) && works(&other));
    }
}
