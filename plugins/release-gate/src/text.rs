//! Words from elsewhere, made fit to be shown to a person who decides by them.

/// `text` on one line, in at most `max_bytes` plus a note of what was left out. Whatever could make
/// it look like something else (line breaks, terminal codes, reversed writing) becomes a space.
pub fn one_line(text: &str, max_bytes: usize) -> String {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut line: String = text[..end]
        .chars()
        .map(|c| if is_deceptive(c) { ' ' } else { c })
        .collect();
    if end < text.len() {
        line.push_str(&format!("… ({} bytes more)", text.len() - end));
    }
    line
}

fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_pose_as_another_line() {
        let table = [
            ("plain é", 20, "plain é"),
            ("a\nb\u{1b}[2J\rc", 20, "a b [2J c"),
            ("a\u{202e}b\u{2028}c", 20, "a b c"),
            ("éé", 3, "é… (2 bytes more)"),
        ];
        for (text, max, line) in table {
            assert_eq!(one_line(text, max), line);
        }
    }
}
