//! Counters of the server, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper ends of the buckets for durations, in seconds.
const BUCKETS: [f64; 9] = [0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];

/// What is counted for one route.
#[derive(Default)]
struct RouteCount {
    by_status: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    count: u64,
}

impl RouteCount {
    fn add(&mut self, status: u16, seconds: f64) {
        *self.by_status.entry(status).or_default() += 1;
        self.sum += seconds;
        self.count += 1;
        for (bucket, end) in self.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= end);
        }
    }
}

/// All counters. Routes are those of the table, so their number is bounded.
#[derive(Default)]
pub(crate) struct Metrics {
    /// By route, then by method.
    routes: Mutex<BTreeMap<String, BTreeMap<String, RouteCount>>>,
    /// Requests that are being answered.
    pub(crate) in_flight: AtomicI64,
    /// Streams of events that are open.
    pub(crate) streams: AtomicI64,
    /// Requests with a token that is not valid.
    pub(crate) bad_tokens: AtomicU64,
    /// Events that were sent to streams.
    pub(crate) events_sent: AtomicU64,
    /// Workspaces that are watched, and those that could not be.
    pub(crate) watched: AtomicI64,
    /// Workspaces that are synced from time to time because watches ran out.
    pub(crate) unwatched: AtomicI64,
}

impl Metrics {
    /// Counts one answered request.
    pub(crate) fn count(&self, method: &str, route: &str, status: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = routes
            .get_mut(route)
            .and_then(|methods| methods.get_mut(method));
        if let Some(counted) = known {
            return counted.add(status, seconds);
        }
        let methods = routes.entry(route.to_owned()).or_default();
        let counted = methods.entry(method.to_owned()).or_default();
        counted.add(status, seconds);
    }

    /// All of it as text.
    pub(crate) fn render(&self, last_event: i64) -> String {
        let mut text = String::new();
        let mut single = |name: &str, kind: &str, help: &str, value: String| {
            let _ = write!(
                text,
                "# HELP offshoot_{name} {help}\n# TYPE offshoot_{name} {kind}\noffshoot_{name} {value}\n"
            );
        };
        let load = |gauge: &AtomicI64| gauge.load(Ordering::Relaxed).to_string();
        let total = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
        single(
            "requests_in_flight",
            "gauge",
            "Requests being answered.",
            load(&self.in_flight),
        );
        single(
            "event_streams",
            "gauge",
            "Open streams of events.",
            load(&self.streams),
        );
        single(
            "events_sent_total",
            "counter",
            "Events sent to streams.",
            total(&self.events_sent),
        );
        single(
            "last_event",
            "gauge",
            "Number of the newest event.",
            last_event.to_string(),
        );
        single(
            "bad_tokens_total",
            "counter",
            "Requests without a valid token.",
            total(&self.bad_tokens),
        );
        single(
            "workspaces_watched",
            "gauge",
            "Workspaces watched for outside changes.",
            load(&self.watched),
        );
        single(
            "workspaces_unwatched",
            "gauge",
            "Workspaces synced from time to time because watches ran out.",
            load(&self.unwatched),
        );
        self.render_routes(&mut text);
        text
    }

    fn render_routes(&self, text: &mut String) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = || {
            routes.iter().flat_map(|(route, methods)| {
                let method = move |(method, counted)| (route, method, counted);
                methods.iter().map(method)
            })
        };
        text.push_str("# HELP offshoot_requests_total Answered requests.\n");
        text.push_str("# TYPE offshoot_requests_total counter\n");
        for (route, method, counted) in counts() {
            for (status, count) in &counted.by_status {
                let _ = writeln!(
                    text,
                    "offshoot_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}} {count}"
                );
            }
        }
        text.push_str("# HELP offshoot_request_seconds Time until the answer begins.\n");
        text.push_str("# TYPE offshoot_request_seconds histogram\n");
        for (route, method, counted) in counts() {
            let labels = format!("method=\"{method}\",route=\"{route}\"");
            for (end, bucket) in BUCKETS.iter().zip(counted.buckets) {
                let _ = writeln!(
                    text,
                    "offshoot_request_seconds_bucket{{{labels},le=\"{end}\"}} {bucket}"
                );
            }
            let (count, sum) = (counted.count, counted.sum);
            let _ = write!(
                text,
                "offshoot_request_seconds_bucket{{{labels},le=\"+Inf\"}} {count}\n\
                 offshoot_request_seconds_sum{{{labels}}} {sum}\n\
                 offshoot_request_seconds_count{{{labels}}} {count}\n"
            );
        }
    }
}
