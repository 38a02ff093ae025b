//! Takes secrets out of answers: where a host repeats one, in a header or in the body, the guest gets
//! its placeholder again. It finds a secret as it was sent, plain and percent-encoded; one that comes
//! back in another spelling (compressed, in Base64) is not found, which is why a secret is bound to
//! hosts in the first place.

use http::HeaderMap;
use http::header::HeaderValue;

use super::substitute::percent_encode;
use crate::wasm::secrets::Secrets;

/// A shorter value would be found by chance, and answers would be spoilt.
const VALUE_MIN_BYTES: usize = 8;

/// Looks for the secrets of one run in one answer, piece by piece.
pub(super) struct Redactor {
    /// What is looked for, and what takes its place; the longest first, since one may begin another.
    patterns: Vec<(Vec<u8>, Vec<u8>)>,
    /// The end of what was fed, where it may be the beginning of a secret.
    held: Vec<u8>,
}

impl Redactor {
    /// None when there is nothing to look for.
    pub fn new(secrets: &Secrets) -> Option<Redactor> {
        let mut patterns = Vec::new();
        for secret in secrets.iter() {
            if secret.value.len() < VALUE_MIN_BYTES {
                continue;
            }
            let placeholder = secret.placeholder.as_bytes();
            let encoded = percent_encode(&secret.value);
            if encoded != secret.value {
                patterns.push((encoded.into_bytes(), placeholder.to_vec()));
            }
            patterns.push((secret.value.clone().into_bytes(), placeholder.to_vec()));
        }
        patterns.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
        (!patterns.is_empty()).then_some(Redactor {
            patterns,
            held: Vec::new(),
        })
    }

    pub fn headers(&mut self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut clean = self.feed(value.as_bytes());
            clean.extend(self.finish());
            if clean != value.as_bytes() {
                // A placeholder is printable, and so was what it is put into.
                *value = HeaderValue::from_bytes(&clean)
                    .unwrap_or_else(|_| HeaderValue::from_static(""));
            }
        }
    }

    /// What of this piece, and of the ones before, can be told by now.
    pub fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        let mut clean = Vec::with_capacity(text.len());
        let mut rest = &text[..];
        while let Some(first) = rest.first() {
            let mut starts = self
                .patterns
                .iter()
                .filter(|(pattern, _)| pattern[0] == *first)
                .peekable();
            if starts.peek().is_none() {
                clean.push(*first);
                rest = &rest[1..];
                continue;
            }
            // One that may still become a longer secret waits for the next piece.
            if starts
                .clone()
                .any(|(pattern, _)| pattern.len() > rest.len() && pattern.starts_with(rest))
            {
                break;
            }
            match starts.find(|(pattern, _)| rest.starts_with(pattern)) {
                Some((pattern, placeholder)) => {
                    clean.extend_from_slice(placeholder);
                    rest = &rest[pattern.len()..];
                }
                None => {
                    clean.push(*first);
                    rest = &rest[1..];
                }
            }
        }
        self.held = rest.to_vec();
        clean
    }

    /// What was held back: nothing more comes, so the longer secret it might have begun is none.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut clean = Vec::new();
        let mut held = std::mem::take(&mut self.held);
        while let Some(first) = held.first().copied() {
            let whole = self
                .patterns
                .iter()
                .find(|(pattern, _)| held.starts_with(pattern));
            match whole {
                Some((pattern, placeholder)) => {
                    clean.extend_from_slice(placeholder);
                    held.drain(..pattern.len());
                }
                None => {
                    clean.push(first);
                    held.remove(0);
                }
            }
        }
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(values: &[&str]) -> Redactor {
        let pairs = values
            .iter()
            .enumerate()
            .map(|(index, value)| (value.to_string(), format!("<{index}>")));
        Redactor::new(&Secrets::of(pairs)).unwrap()
    }

    /// The text in pieces of `length` bytes.
    fn redacted(values: &[&str], text: &str, length: usize) -> String {
        let mut redactor = redactor(values);
        let mut clean = Vec::new();
        for piece in text.as_bytes().chunks(length) {
            clean.extend(redactor.feed(piece));
        }
        clean.extend(redactor.finish());
        String::from_utf8(clean).unwrap()
    }

    #[test]
    fn a_secret_is_found_however_the_answer_is_cut() {
        let values = ["abcabcabd", "abcabcabdxyz", "s3cret/value"];
        let table = [
            ("abcabcabd", "<0>"),
            ("abcabcabcabd.", "abc<0>."),
            ("abcabcabdxyz", "<1>"),
            ("abcabcabdxy", "<0>xy"),
            ("token=s3cret%2Fvalue&", "token=<2>&"),
            ("s3cret/valu", "s3cret/valu"),
            ("nothing", "nothing"),
            ("abcabcabdabcabcabd", "<0><0>"),
        ];
        for (text, expected) in table {
            for length in 1..=text.len() {
                assert_eq!(redacted(&values, text, length), expected, "{text} {length}");
            }
        }
    }

    #[test]
    fn what_can_not_be_a_secret_is_not_held_back() {
        let mut redactor = redactor(&["s3cret-value"]);
        assert_eq!(redactor.feed(b"data: one\n\n"), b"data: one\n\n");
        assert_eq!(redactor.feed(b"data: s3c"), b"data: ");
        assert_eq!(redactor.feed(b"ond\n\n"), b"s3cond\n\n");
    }

    #[test]
    fn a_short_value_is_not_looked_for() {
        assert!(Redactor::new(&Secrets::of([("1".to_owned(), "<0>".to_owned())])).is_none());
    }
}
