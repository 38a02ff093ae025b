//! Which characters of others' words are never shown: those that drive a terminal instead of standing
//! on it. It shows nothing itself.

use std::borrow::Cow;

/// Whether `c` does something to what is shown around it: it begins an escape sequence, moves back,
/// turns the direction of a line round, or breaks it. Line feeds and tabs are among them; whoever
/// keeps those says so.
pub fn drives_display(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Marks, embeddings, overrides and isolates of direction, and what shapes digits.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            // Ends of lines and paragraphs by other names.
            | '\u{2028}' | '\u{2029}'
        )
}

/// `text` on its way out, without what could drive a terminal. `own_colour` says how long a sequence
/// of our own is with which what is left begins.
pub fn harmless(text: &str, own_colour: impl Fn(&str) -> Option<usize>) -> Cow<'_, str> {
    let is_kept = |c: char| matches!(c, '\n' | '\t') || !drives_display(c);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = (c == '\u{1b}').then(|| own_colour(rest)).flatten();
        let taken = colour.unwrap_or(c.len_utf8());
        if colour.is_some() || is_kept(c) {
            kept.push_str(&rest[..taken]);
        }
        rest = &rest[taken..];
    }
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_colours_pass() {
        let text = "\u{1b}[31mred\u{1b}[2J\u{7}\u{9b}31m\u{202e}b\r\n\tc\u{61c}";
        let red = |rest: &str| rest.starts_with("\u{1b}[31m").then_some(5);
        assert_eq!(harmless(text, red), "\u{1b}[31mred[2J31mb\n\tc");
        assert_eq!(harmless(text, |_| None), "[31mred[2J31mb\n\tc");
        assert!(matches!(harmless("plain\n", red), Cow::Borrowed(_)));
    }

    #[test]
    fn letters_of_every_script_stand_and_what_moves_them_does_not() {
        // A joiner belongs to a family of emoji, and to words of some languages.
        for c in "aé한עγ 👩\u{200d}👧—\u{a0}".chars() {
            assert!(!drives_display(c), "{c:?}");
        }
        for c in "\u{1b}\u{7}\u{8}\r\n\t\u{7f}\u{85}\u{9b}\u{61c}\u{202e}\u{2066}\u{2028}".chars() {
            assert!(drives_display(c), "{c:?}");
        }
    }
}
