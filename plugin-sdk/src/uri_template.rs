//! URI templates of RFC 6570, level 1: `{name}` stands for one or more characters other than `/`.

/// The values of the variables in a URI that fits, decoded; None if it does not fit.
pub(crate) fn variables(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
    let (prefix, mut pattern) = split_literal(template);
    let mut rest = uri.strip_prefix(prefix)?;
    let mut found = Vec::new();
    while let Some((name, after)) = pattern.strip_prefix('{').and_then(|it| it.split_once('}')) {
        let (literal, next) = split_literal(after);
        // The first place where the text goes on as the template does is the only one worth trying:
        // a later one can only take from the variables that follow. The last literal ends the URI.
        let length = match next.is_empty() {
            true => rest.strip_suffix(literal)?.len(),
            false => {
                let first = rest.chars().next()?.len_utf8();
                first + rest[first..].find(literal)?
            }
        };
        let value = &rest[..length];
        if value.is_empty() || value.contains('/') {
            return None;
        }
        found.push((name.into(), decoded(value)?));
        rest = &rest[length + literal.len()..];
        pattern = next;
    }
    (rest.is_empty() && pattern.is_empty()).then_some(found)
}

/// How much of a template is fixed: of two that fit, the one with more says more.
pub(crate) fn fixed_bytes(template: &str) -> usize {
    let (start, mut rest) = split_literal(template);
    let mut fixed = start.len();
    while let Some((_, after)) = rest.split_once('}') {
        let (literal, next) = split_literal(after);
        fixed += literal.len();
        rest = next;
    }
    fixed
}

/// What comes before the first variable, and what is left.
fn split_literal(pattern: &str) -> (&str, &str) {
    pattern.split_at(pattern.find('{').unwrap_or(pattern.len()))
}

/// Without its percent signs; None if what they encode is no UTF-8.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let (high, low) = (digit(high)?, digit(low)?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
                after
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_fits_a_template_or_does_not() {
        let table: [(&str, &str, Option<&[&str]>); 14] = [
            (
                "test://template/{id}/data",
                "test://template/123/data",
                Some(&["123"]),
            ),
            ("test://template/{id}/data", "test://template//data", None),
            (
                "test://template/{id}/data",
                "test://template/1/2/data",
                None,
            ),
            ("test://template/{id}/data", "test://template/1/data/", None),
            ("test://template/{id}/data", "test://template/1", None),
            (
                "notes://{book}/{page}",
                "notes://a%20b/%C3%A4",
                Some(&["a b", "ä"]),
            ),
            ("notes://{book}/{page}", "notes://a/%C3", None),
            ("notes://{book}/{page}", "notes://a/%4", None),
            ("notes://{book}/{page}", "notes://a/b/c", None),
            ("v://{a}-{b}", "v://1-2-3", Some(&["1", "2-3"])),
            ("v://{a}-{b}", "v://--1", Some(&["-", "1"])),
            ("v://{a}.txt", "v://a.txt.txt", Some(&["a.txt"])),
            ("v://{a}{b}", "v://xyz", Some(&["x", "yz"])),
            ("v://plain", "v://plain", Some(&[])),
        ];
        for (template, uri, expected) in table {
            let found = variables(template, uri);
            let values: Option<Vec<String>> =
                found.map(|found| found.into_iter().map(|(_, value)| value).collect());
            assert_eq!(
                values.as_deref(),
                expected
                    .map(|it| it.iter().map(|it| String::from(*it)).collect::<Vec<_>>())
                    .as_deref(),
                "{template} {uri}"
            );
        }
    }

    #[test]
    fn only_what_is_no_variable_is_fixed() {
        let table = [
            ("v://a", 5),
            ("v://{a}", 4),
            ("v://{longer}", 4),
            ("v://{a}/{b}.txt", 9),
        ];
        for (template, fixed) in table {
            assert_eq!(fixed_bytes(template), fixed, "{template}");
        }
    }
}
