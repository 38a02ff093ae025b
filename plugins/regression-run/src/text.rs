//! Cutting text to a size, so that one answer cannot fill a result.

/// `text` in at most `max_bytes` plus a note of how much was left out; control characters that
/// would disturb a terminal become spaces.
pub fn excerpt(text: &str, max_bytes: usize) -> String {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut cut: String = text[..end]
        .chars()
        .map(|c| {
            if c.is_control() && c != '\n' && c != '\t' {
                ' '
            } else {
                c
            }
        })
        .collect();
    if end < text.len() {
        cut.push_str(&format!("… ({} bytes more)", text.len() - end));
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_character() {
        let table = [
            ("short", 10, "short"),
            ("éé", 3, "é… (2 bytes more)"),
            ("a\u{1b}[31mb\nc", 20, "a [31mb\nc"),
            ("", 0, ""),
        ];
        for (text, max, cut) in table {
            assert_eq!(excerpt(text, max), cut);
        }
    }
}
