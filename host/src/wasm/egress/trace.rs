//! Carries the caller's trace to the services a tool calls. What the caller said wins over what the
//! guest wrote: a guest can't know its place in the trace, and must not be able to fake one.

use http::header::{HeaderMap, HeaderValue};

use crate::task::Trace;

/// Sets the headers of the trace; each request is a span of its own.
pub(super) fn carry(trace: &Trace, headers: &mut HeaderMap) {
    if let Some(parent) = &trace.parent {
        let own = parent.with_span(new_span()).to_string();
        set(headers, "traceparent", Some(&own));
        // One of the guest's own would belong to another parent.
        set(headers, "tracestate", parent.state.as_deref());
    }
    if let Some(baggage) = &trace.baggage {
        set(headers, "baggage", Some(baggage));
    }
}

fn set(headers: &mut HeaderMap, name: &'static str, value: Option<&str>) {
    // It was read from visible ASCII, so it fits.
    match value.map(HeaderValue::from_str) {
        Some(Ok(value)) => drop(headers.insert(name, value)),
        _ => drop(headers.remove(name)),
    }
}

/// Any but all zeros, which names no span.
fn new_span() -> [u8; 8] {
    let random = getrandom::u64().expect("the system's random generator works");
    random.max(1).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    #[test]
    fn the_callers_trace_wins_over_the_guests() {
        let mut sent = headers(&[
            ("traceparent", "00-1-2-3"),
            ("tracestate", "guest=1"),
            ("baggage", "guest=1"),
        ]);
        let trace = Trace::read(Some(PARENT), None, Some("user=ada")).unwrap();
        carry(&trace, &mut sent);
        let parent = sent["traceparent"].to_str().unwrap();
        assert!(parent.starts_with(&PARENT[..36]), "{parent}");
        assert_ne!(parent, PARENT, "a span of its own");
        assert_eq!(sent.get("tracestate"), None);
        assert_eq!(sent["baggage"], "user=ada");
        let before = parent.to_owned();
        carry(&trace, &mut sent);
        assert_ne!(sent["traceparent"], *before, "each request is its own");
    }

    #[test]
    fn a_caller_without_a_trace_leaves_the_guests() {
        let mut sent = headers(&[("traceparent", PARENT), ("tracestate", "a=b")]);
        let trace = Trace::read(None, None, Some("user=ada")).unwrap();
        carry(&trace, &mut sent);
        assert_eq!(sent["traceparent"], PARENT);
        assert_eq!(sent["tracestate"], "a=b");
    }
}
