//! Bytes into lines, none longer than a message may be.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Lines of a byte stream.
pub struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    max_bytes: usize,
    /// Whether the rest of a line that is too long is still being passed over.
    is_discarding: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Message(Vec<u8>),
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(reader: R, max_bytes: usize) -> Lines<R> {
        Lines {
            reader: BufReader::new(reader),
            line: Vec::new(),
            max_bytes,
            is_discarding: false,
        }
    }

    /// The next line that is not empty. Safe to cancel: what was read of a line stays.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                // A message that was cut off is none, but one may lack the last line's end.
                let last = std::mem::take(&mut self.line);
                return Ok(if last.is_empty() {
                    Line::End
                } else {
                    Line::Message(last)
                });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let is_too_long = self.line.len() + part.len() > self.max_bytes;
            if !self.is_discarding && !is_too_long {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.reader.consume(taken);
            let was_discarding = self.is_discarding;
            self.is_discarding = end.is_none() && (was_discarding || is_too_long);
            if is_too_long && !was_discarding {
                self.line.clear();
                return Ok(Line::TooLong);
            }
            if end.is_some() && !was_discarding {
                let line = std::mem::take(&mut self.line);
                if !line.trim_ascii().is_empty() {
                    return Ok(Line::Message(line));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &str) -> Vec<Line> {
        // In small pieces, as a pipe may give them.
        let pieces = in_pieces(text.as_bytes());
        let mut lines = Lines::new(pieces, 8);
        let mut all = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::End => return all,
                line => all.push(line),
            }
        }
    }

    fn in_pieces(bytes: &[u8]) -> impl AsyncRead + Unpin + use<> {
        let (reader, mut writer) = tokio::io::duplex(3);
        let bytes = bytes.to_vec();
        tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut writer, &bytes).await });
        reader
    }

    fn message(text: &str) -> Line {
        Line::Message(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn every_line_is_a_message_and_empty_ones_are_passed_over() {
        assert_eq!(
            lines("{}\n\n {\"a\":1}\r\n7").await,
            [message("{}"), Line::TooLong, message("7")]
        );
        assert_eq!(lines("12345678\n").await, [message("12345678")]);
        assert_eq!(lines("").await, []);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over_whole() {
        let long = "x".repeat(40);
        assert_eq!(
            lines(&format!("{long}\n{{}}\n")).await,
            [Line::TooLong, message("{}")]
        );
        assert_eq!(lines(&long).await, [Line::TooLong]);
    }

    /// What [`Lines`] gives for all of `bytes`, written the simple way.
    fn expected(bytes: &[u8]) -> Vec<Line> {
        let mut pieces: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let last = pieces.pop().unwrap_or_default();
        let mut lines: Vec<Line> = pieces.into_iter().map(whole).collect();
        lines.retain(|line| !matches!(line, Line::Message(text) if text.trim_ascii().is_empty()));
        if !last.is_empty() {
            lines.push(whole(last));
        }
        lines
    }

    fn whole(piece: &[u8]) -> Line {
        match piece.len() {
            0..=8 => Line::Message(piece.to_vec()),
            _ => Line::TooLong,
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_the_lines_they_look_like(bytes in "[ab \r\n]{0,60}", size in 1_usize..12) {
            let mut lines = Lines::new(tokio::io::BufReader::with_capacity(size, bytes.as_bytes()), 8);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut all = Vec::new();
            loop {
                match runtime.block_on(lines.next()).unwrap() {
                    Line::End => break,
                    line => all.push(line),
                }
            }
            proptest::prop_assert_eq!(all, expected(bytes.as_bytes()));
        }
    }
}
