//! The trace a call belongs to (W3C Trace Context and Baggage, which MCP carries in `_meta`): what is
//! well-formed and bounded of it. What is not is dropped, as the first of the two asks.

use std::fmt;

use super::id::hex;

/// Of `tracestate`, bytes and members (Trace Context, 3.3.1).
const STATE_MAX_BYTES: usize = 512;
const STATE_MEMBERS_MAX: usize = 32;

/// Of `baggage`, bytes and members (Baggage, 3.3.2).
const BAGGAGE_MAX_BYTES: usize = 8_192;
const BAGGAGE_MEMBERS_MAX: usize = 64;

/// A length that every version of `traceparent` begins with, bytes.
const PARENT_BYTES: usize = 55;

/// What a caller said of its trace; at least one of both is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub parent: Option<TraceParent>,
    pub baggage: Option<String>,
}

/// Where in which trace a call was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    /// `tracestate`, as it came.
    pub state: Option<String>,
}

impl Trace {
    /// Takes what is valid of the three; None when nothing is.
    pub fn read(parent: Option<&str>, state: Option<&str>, baggage: Option<&str>) -> Option<Trace> {
        let parent = parent
            .and_then(TraceParent::parse)
            .map(|parent| TraceParent {
                // It means nothing without a parent.
                state: state.filter(|state| is_state(state)).map(str::to_owned),
                ..parent
            });
        let baggage = baggage
            .filter(|baggage| is_baggage(baggage))
            .map(str::to_owned);
        (parent.is_some() || baggage.is_some()).then_some(Trace { parent, baggage })
    }

    /// The trace's name, for logs.
    pub fn id(&self) -> Option<String> {
        Some(hex(&self.parent.as_ref()?.trace_id))
    }
}

impl TraceParent {
    fn parse(text: &str) -> Option<TraceParent> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_longer = text.len() > PARENT_BYTES;
        if !is_plain || text.len() < PARENT_BYTES {
            return None;
        }
        let mut parts = text.split('-');
        let (version, trace_id) = (bytes::<1>(parts.next()?)?, bytes(parts.next()?)?);
        let (span_id, flags) = (bytes(parts.next()?)?, bytes::<1>(parts.next()?)?);
        // A later version may say more, behind another dash; of what it says, this much is known.
        let is_known = match version {
            [0] => !is_longer,
            [0xff] => false,
            _ => !is_longer || text.as_bytes()[PARENT_BYTES] == b'-',
        };
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        (is_known && is_valid).then_some(TraceParent {
            trace_id,
            span_id,
            flags: flags[0],
            state: None,
        })
    }

    /// The same place in the same trace, with a span of our own.
    pub fn with_span(&self, span_id: [u8; 8]) -> TraceParent {
        TraceParent {
            span_id,
            ..self.clone()
        }
    }
}

/// The header's form, in the version that this knows.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (hex(&self.trace_id), hex(&self.span_id));
        write!(f, "00-{trace}-{span}-{:02x}", self.flags)
    }
}

fn is_state(text: &str) -> bool {
    let is_key = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@')
    };
    let is_member = |member: &str| match member.trim_matches([' ', '\t']).split_once('=') {
        Some((key, value)) => {
            (1..=256).contains(&key.len())
                && key.bytes().all(is_key)
                && (1..=256).contains(&value.len())
                && value
                    .bytes()
                    .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'='))
        }
        None => false,
    };
    is_list(text, STATE_MAX_BYTES, STATE_MEMBERS_MAX, is_member)
}

fn is_baggage(text: &str) -> bool {
    let is_value = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b'\\');
    let is_token = |byte: u8| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'('
                    | b')'
                    | b','
                    | b'/'
                    | b':'
                    | b';'
                    | b'<'
                    | b'='
                    | b'>'
                    | b'?'
                    | b'@'
                    | b'['
                    | b'\\'
                    | b']'
                    | b'{'
                    | b'}'
            )
    };
    let is_member = |member: &str| match member.split_once('=') {
        Some((key, value)) => {
            let (key, value) = (
                key.trim_matches([' ', '\t']),
                value.trim_matches([' ', '\t']),
            );
            !key.is_empty()
                && key.bytes().all(is_token)
                && value
                    .bytes()
                    .all(|byte| is_value(byte) || matches!(byte, b' ' | b'\t'))
        }
        None => false,
    };
    is_list(text, BAGGAGE_MAX_BYTES, BAGGAGE_MEMBERS_MAX, is_member)
}

fn is_list(
    text: &str,
    max_bytes: usize,
    members_max: usize,
    is_member: impl Fn(&str) -> bool,
) -> bool {
    text.len() <= max_bytes
        && text.split(',').count() <= members_max
        && text.split(',').all(is_member)
}

/// Lower-case hexadecimal digits of exactly `N` bytes.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != N * 2 || !text.bytes().all(is_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(parent: &str, state: &str, baggage: &str) -> Option<Trace> {
        Trace::read(Some(parent), Some(state), Some(baggage))
    }

    #[test]
    fn a_valid_trace_is_kept_and_written_with_another_span() {
        let trace = read(
            PARENT,
            "rojo=00f067aa0ba902b7, congo@t61=x y",
            "user=ada;p=1, k=%20",
        )
        .unwrap();
        assert_eq!(
            trace.id().as_deref(),
            Some("0af7651916cd43dd8448eb211c80319c")
        );
        assert_eq!(trace.baggage.as_deref(), Some("user=ada;p=1, k=%20"));
        let parent = trace.parent.unwrap();
        assert_eq!(parent.to_string(), PARENT);
        assert_eq!(
            parent.state.as_deref(),
            Some("rojo=00f067aa0ba902b7, congo@t61=x y")
        );
        assert_eq!(
            parent.with_span([1; 8]).to_string(),
            "00-0af7651916cd43dd8448eb211c80319c-0101010101010101-01"
        );
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = format!("cc{}-what-comes", &PARENT[2..]);
        let trace = read(&later, "", "").unwrap();
        assert_eq!(trace.parent.unwrap().to_string(), PARENT);
    }

    #[test]
    fn what_is_not_valid_is_dropped() {
        let upper = PARENT.to_uppercase();
        let zero_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let zero_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let reserved = format!("ff{}", &PARENT[2..]);
        let longer = format!("{PARENT}-more");
        let broken = format!("{PARENT}\r\nx");
        let glued = format!("cc{}x", &PARENT[2..]);
        for parent in [
            "",
            "00",
            &PARENT[1..],
            &upper,
            zero_trace,
            zero_span,
            &reserved,
            &longer,
            &broken,
            &glued,
            "é",
        ] {
            assert_eq!(read(parent, "a=b", ""), None, "{parent}");
        }
        let long = "a".repeat(600);
        let many = vec!["a=b"; 33].join(",");
        for state in [
            "",
            "a",
            "=b",
            "a=",
            "A=b",
            "a=b\n",
            "a=é",
            &format!("a={long}"),
            &many,
        ] {
            let parent = read(PARENT, state, "").unwrap().parent.unwrap();
            assert_eq!(parent.state, None, "{state}");
        }
        let long = format!("a={}", "b".repeat(8_192));
        let many = vec!["a=b"; 65].join(",");
        for baggage in [
            "",
            "a",
            "=b",
            "a b=c",
            "a=b\r\nx: y",
            "a=\"b\"",
            "a=é",
            &long,
            &many,
        ] {
            assert_eq!(Trace::read(None, None, Some(baggage)), None, "{baggage}");
        }
    }
}
