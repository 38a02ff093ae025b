//! Writes JSON-RPC messages straight to bytes. JSON that is stored as text (results, schemas,
//! forms) is spliced in as it is. It decides nothing: what a message says is its caller's.

use bytes::Bytes;

use super::RequestId;
use super::error::Face;

/// The extension's name, as capability and as key.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

const SERVER_INFO: &str = concat!(
    r#"{"name":"longshore","title":"Longshore","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

/// What most answers fit into; a larger one grows.
const ANSWER_BYTES: usize = 512;

/// A response whose `result` has the members that `fill` writes.
pub fn response(id: &RequestId, fill: impl FnOnce(&mut Object)) -> Bytes {
    let mut out = Vec::with_capacity(ANSWER_BYTES);
    object(&mut out, |message| {
        message
            .raw("jsonrpc", r#""2.0""#)
            .raw("id", id.as_json())
            .object("result", fill);
    });
    out.into()
}

/// An error response; without an id when the request's could not be read.
pub fn failure(id: Option<&RequestId>, face: &Face) -> Bytes {
    let mut out = Vec::with_capacity(ANSWER_BYTES);
    object(&mut out, |message| {
        message.raw("jsonrpc", r#""2.0""#);
        if let Some(id) = id {
            message.raw("id", id.as_json());
        }
        message.object("error", |error| {
            error
                .integer("code", face.code.into())
                .text("message", &face.message);
            if let Some(data) = &face.data {
                error.raw("data", data);
            }
        });
    });
    out.into()
}

/// A notification whose `params` have the members that `fill` writes.
pub fn notification(method: &str, fill: impl FnOnce(&mut Object)) -> Bytes {
    let mut out = Vec::with_capacity(ANSWER_BYTES);
    object(&mut out, |message| {
        message
            .raw("jsonrpc", r#""2.0""#)
            .text("method", method)
            .object("params", fill);
    });
    out.into()
}

/// A result's `_meta`: the server's name (basic/index, "Per-response protocol fields") and what
/// `fill` adds.
pub fn result_meta(result: &mut Object, fill: impl FnOnce(&mut Object)) {
    result.object("_meta", |meta| {
        meta.raw("io.modelcontextprotocol/serverInfo", SERVER_INFO);
        fill(meta);
    });
}

/// Appends an object whose members `fill` writes.
pub fn object(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object)) {
    out.push(b'{');
    fill(&mut Object {
        out,
        is_empty: true,
    });
    out.push(b'}');
}

/// An object being written. Keys come in the order of the calls and are the caller's to keep apart.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl Object<'_> {
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key);
        quote(self.out, value);
        self
    }

    pub fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        self.raw(key, if value { "true" } else { "false" })
    }

    pub fn integer(&mut self, key: &str, value: i128) -> &mut Self {
        self.raw(key, &value.to_string())
    }

    /// A number; nothing at all when it has no JSON form (NaN, infinite).
    pub fn number(&mut self, key: &str, value: f64) -> &mut Self {
        // Below 2^53 every whole number is exact, and clients show `50` better than `50.0`.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        if !value.is_finite() {
            self
        } else if value.fract() == 0.0 && value.abs() < EXACT_MAX {
            self.raw(key, &(value as i64).to_string())
        } else {
            self.raw(key, &value.to_string())
        }
    }

    /// JSON text that was checked when it entered the host.
    pub fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        self.key(key);
        splice(self.out, json);
        self
    }

    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object)) -> &mut Self {
        self.key(key);
        object(self.out, fill);
        self
    }

    /// An array of objects, one for each item.
    pub fn objects<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(&mut Object, T),
    ) -> &mut Self {
        self.array(key, items, |out, item| {
            object(out, |element| fill(element, item));
        })
    }

    /// An array of strings.
    pub fn texts<'t>(&mut self, key: &str, items: impl IntoIterator<Item = &'t str>) -> &mut Self {
        self.array(key, items, quote)
    }

    /// An array of JSON texts.
    pub fn raws<'t>(&mut self, key: &str, items: impl IntoIterator<Item = &'t str>) -> &mut Self {
        self.array(key, items, splice)
    }

    fn array<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Vec<u8>, T),
    ) -> &mut Self {
        self.key(key);
        self.out.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write(self.out, item);
        }
        self.out.push(b']');
        self
    }

    /// The members of an object that is JSON text.
    pub fn members(&mut self, json: &str) -> &mut Self {
        let inner = json
            .trim()
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or_default()
            .trim();
        if !inner.is_empty() {
            self.separate();
            splice(self.out, inner);
        }
        self
    }

    fn key(&mut self, key: &str) {
        self.separate();
        quote(self.out, key);
        self.out.push(b':');
    }

    fn separate(&mut self) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
    }
}

/// A message is one line: stdio frames by lines, SSE by lines too. Inside a JSON string a line end
/// is always escaped, so a raw one is white space between tokens and may become a space.
fn splice(out: &mut Vec<u8>, json: &str) {
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    // Every byte is written, so that many are at a time.
    for byte in &mut out[start..] {
        *byte = if matches!(*byte, b'\n' | b'\r') {
            b' '
        } else {
            *byte
        };
    }
}

fn quote(out: &mut Vec<u8>, text: &str) {
    // What has nothing to escape is copied as it is: every key, and most texts. All is looked at,
    // so that many bytes are at a time.
    let escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    if !text.bytes().fold(false, |any, byte| any | escaped(byte)) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    serde_json::to_writer(out, text).expect("a string always has a JSON form");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: impl FnOnce(&mut Object)) -> String {
        let mut out = Vec::new();
        object(&mut out, fill);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_of_stored_json_join_the_object() {
        let text = written(|o| {
            o.text("a", "1")
                .members(r#" {"b":2, "c":{}} "#)
                .members("{ }")
                .flag("d", true);
        });
        assert_eq!(text, r#"{"a":"1","b":2, "c":{},"d":true}"#);
    }

    #[test]
    fn a_spliced_text_never_breaks_the_line() {
        let text = written(|o| {
            o.raw("schema", "{\r\n  \"type\": \"object\"\n}")
                .text("message", "two\nlines");
        });
        assert!(!text.contains(['\n', '\r']), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["message"], "two\nlines");
        assert_eq!(value["schema"]["type"], "object");
    }

    #[test]
    fn numbers_are_whole_where_they_can_be_and_absent_where_they_have_no_form() {
        let text = written(|o| {
            o.number("a", 50.0)
                .number("b", 0.25)
                .number("c", f64::NAN)
                .number("d", -3.0)
                .number("e", 1e300);
        });
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(
            text.starts_with(r#"{"a":50,"b":0.25,"d":-3,"e":1"#),
            "{text}"
        );
        assert_eq!(value["e"], 1e300);
    }
}
