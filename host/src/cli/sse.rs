//! Server-sent events, as MCP uses them: the `data` of each event is one JSON-RPC message.

use thiserror::Error;

/// A larger event than any result a host may be configured to return.
const EVENT_MAX_BYTES: usize = 128 << 20;

/// Splits a stream of bytes into events.
#[derive(Default)]
pub struct Parser {
    buffer: Vec<u8>,
    /// How far the buffer was searched for a line's end.
    searched: usize,
    data: String,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum SseError {
    #[error("the host sent an event of more than {} MiB", EVENT_MAX_BYTES >> 20)]
    TooLarge,
    #[error("the host sent an event that is not UTF-8")]
    NotUtf8,
}

impl Parser {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.buffer.len() + self.data.len() + bytes.len() > EVENT_MAX_BYTES {
            return Err(SseError::TooLarge);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// The data of the next complete event.
    pub fn next_event(&mut self) -> Result<Option<String>, SseError> {
        while let Some(line) = self.next_line()? {
            if line.is_empty() {
                if !self.data.is_empty() {
                    return Ok(Some(std::mem::take(&mut self.data)));
                }
            } else if let Some(value) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
            }
        }
        Ok(None)
    }

    /// A line ends with LF or CRLF. (A lone CR, which SSE also allows, no MCP server sends.)
    fn next_line(&mut self) -> Result<Option<String>, SseError> {
        let Some(end) = self.buffer[self.searched..]
            .iter()
            .position(|b| *b == b'\n')
        else {
            self.searched = self.buffer.len();
            return Ok(None);
        };
        let rest = self.buffer.split_off(self.searched + end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        self.searched = 0;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line)
            .map(Some)
            .map_err(|_| SseError::NotUtf8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<String> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk).unwrap();
            while let Some(event) = parser.next_event().unwrap() {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn events_are_found_wherever_the_stream_is_cut() {
        let text = ": keep-alive\r\n\r\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\n";
        let expected = ["{\"a\":\n1}", "x"];
        assert_eq!(events(&[text.as_bytes()]), expected);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(events(&bytes), expected);
    }

    #[test]
    fn an_unfinished_event_is_not_an_event() {
        assert!(events(&[b"data: {}\n"]).is_empty());
    }
}
