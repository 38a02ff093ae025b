//! URIs and families of them: their form (RFC 3986, and RFC 6570 at level 1), and whether one is
//! of the other. It never reads anything.

use crate::task::{OWN_SCHEME, is_own_uri};

/// Variables of one template.
const VARIABLES_MAX: usize = 16;

/// A template whose variables each stand for one or more characters other than `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    text: String,
    /// What comes before the first variable.
    start: String,
    variables: Vec<Variable>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: String,
    /// The fixed text after it; empty only at the end.
    then: String,
}

/// Says what is wrong with a plugin's URI, if anything is.
pub fn check_uri(uri: &str) -> Result<(), String> {
    check_scheme(uri)?;
    check_characters(uri)
}

impl UriTemplate {
    pub fn parse(text: &str) -> Result<UriTemplate, String> {
        let (start, mut rest) = text
            .split_once('{')
            .ok_or("it has no variable; list it as a resource")?;
        check_scheme(start)?;
        check_characters(start)?;
        let mut variables: Vec<Variable> = Vec::new();
        loop {
            let (name, after) = rest.split_once('}').ok_or("a `{` has no `}`")?;
            check_variable(name)?;
            if variables.iter().any(|variable| variable.name == name) {
                return Err(format!("it has the variable `{name}` twice"));
            }
            if variables.len() >= VARIABLES_MAX {
                return Err(format!("it has more than {VARIABLES_MAX} variables"));
            }
            let (then, next) = match after.split_once('{') {
                Some((then, next)) => (then, Some(next)),
                None => (after, None),
            };
            check_characters(then)?;
            if then.is_empty() && next.is_some() {
                return Err("two variables touch; put something between them".to_owned());
            }
            variables.push(Variable {
                name: name.to_owned(),
                then: then.to_owned(),
            });
            match next {
                Some(next) => rest = next,
                None => break,
            }
        }
        Ok(UriTemplate {
            text: text.to_owned(),
            start: start.to_owned(),
            variables,
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.name.as_str())
    }

    /// Whether both stand for the same URIs, whatever their variables are called.
    pub fn is_same_family(&self, other: &UriTemplate) -> bool {
        let thens = |template: &UriTemplate| -> Vec<String> {
            let variables = template.variables.iter();
            variables.map(|variable| variable.then.clone()).collect()
        };
        self.start == other.start && thens(self) == thens(other)
    }

    /// Whether a URI could be of both. It may say so of two that have none in common, never the
    /// other way round: what is between a segment's ends is not looked at, so that hundreds of
    /// templates are held against thousands of others in no time (I6).
    pub fn may_overlap(&self, other: &UriTemplate) -> bool {
        // No variable stands for a `/`, so both have the segments of every URI that fits them.
        let (ours, theirs) = (self.text.split('/'), other.text.split('/'));
        ours.clone().count() == theirs.clone().count()
            && ours.zip(theirs).all(|(one, two)| could_be_one(one, two))
    }

    /// Whether the URI is one of the family. It takes each fixed text where it comes first: a later
    /// place would only move characters without a `/` from one variable to the one before.
    pub fn fits(&self, uri: &str) -> bool {
        let Some(mut rest) = uri.strip_prefix(self.start.as_str()) else {
            return false;
        };
        let mut variables = self.variables.iter().peekable();
        while let Some(variable) = variables.next() {
            let then = variable.then.as_str();
            let end = match variables.peek() {
                Some(_) => place_after_one(rest, then),
                None => rest.strip_suffix(then).map(str::len),
            };
            match end {
                Some(end) if end > 0 && !rest[..end].contains('/') => {
                    rest = &rest[end + then.len()..];
                }
                _ => return false,
            }
        }
        true
    }
}

/// Whether two segments of templates could stand for the same text.
fn could_be_one(one: &str, two: &str) -> bool {
    let is_of = |text: &str, (start, end): (&str, &str)| {
        text.len() > start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
    };
    match (fixed_ends(one), fixed_ends(two)) {
        (None, None) => one == two,
        (None, Some(ends)) => is_of(one, ends),
        (Some(ends), None) => is_of(two, ends),
        (Some((start, end)), Some((other_start, other_end))) => {
            (start.starts_with(other_start) || other_start.starts_with(start))
                && (end.ends_with(other_end) || other_end.ends_with(end))
        }
    }
}

/// What comes before a segment's first variable and after its last; None if it has none.
fn fixed_ends(segment: &str) -> Option<(&str, &str)> {
    let (start, _) = segment.split_once('{')?;
    let (_, end) = segment.rsplit_once('}')?;
    Some((start, end))
}

/// Where `text` comes first after at least one character.
fn place_after_one(rest: &str, text: &str) -> Option<usize> {
    let one = rest.chars().next()?.len_utf8();
    rest[one..].find(text).map(|at| one + at)
}

fn check_scheme(uri: &str) -> Result<(), String> {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !is_scheme {
        return Err("it has to begin with a scheme, as in `notes://welcome`".to_owned());
    }
    if is_own_uri(uri) {
        return Err(format!(
            "`{OWN_SCHEME}:` is the host's own scheme; choose another"
        ));
    }
    Ok(())
}

/// The characters of RFC 3986, with `%` before two hexadecimal digits only.
fn check_characters(text: &str) -> Result<(), String> {
    const MARKS: &[u8] = b"-._~:/?#[]@!$&'()*+,;=%";
    let odd = text
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || c.is_ascii() && MARKS.contains(&(*c as u8))));
    if let Some(odd) = odd {
        return Err(format!(
            "`{}` can't stand in a URI; write it with `%`",
            odd.escape_debug()
        ));
    }
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    match text.split('%').skip(1).all(is_escape) {
        true => Ok(()),
        false => Err("a `%` has to be followed by two hexadecimal digits".to_owned()),
    }
}

/// A plain name: level 1 has no operators, lists or prefixes.
fn check_variable(name: &str) -> Result<(), String> {
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_name {
        return Ok(());
    }
    Err(format!(
        "`{{{}}}` is no variable: a name of letters, digits and `_`, without an operator",
        name.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> UriTemplate {
        UriTemplate::parse(text).unwrap()
    }

    #[test]
    fn a_variable_stands_for_characters_of_one_segment() {
        for (text, uri, fits) in [
            ("x://t/{id}/data", "x://t/7/data", true),
            ("x://t/{id}/data", "x://t//data", false),
            ("x://t/{id}/data", "x://t/7/8/data", false),
            ("x://t/{id}/data", "x://t/7/data/", false),
            ("x://t/{id}", "x://t/%C3%BC", true),
            ("x://t/{id}", "y://t/7", false),
            ("x:{a}-{b}", "x:1-2", true),
            ("x:{a}-{b}", "x:1-2-3", true),
            ("x:{a}-{b}", "x:-2", false),
            ("x:{a}-{b}", "x:--2", true),
            ("x:{a}-{b}/c", "x:1-2/c", true),
            ("x:{a}-{b}/c", "x:1/2-3/c", false),
            ("x:{a}.txt", "x:a.txt.txt", true),
            ("x:{a}.txt", "x:.txt", false),
        ] {
            assert_eq!(template(text).fits(uri), fits, "{text} {uri}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_filled_in_fits_and_nothing_breaks_it(
            a in "[a-z0-9%-]{1,8}", b in "[a-z0-9%-]{1,8}", other: String,
        ) {
            let both = template("x://{a}/-{b}-");
            assert!(both.fits(&format!("x://{a}/-{b}-")));
            both.fits(&other);
            both.fits(&format!("x://{other}"));
            let _ = UriTemplate::parse(&other);
            let _ = UriTemplate::parse(&format!("x:{{{other}"));
        }
    }

    #[test]
    fn templates_of_other_levels_and_forms_are_refused_in_words() {
        for (text, word) in [
            ("x://a", "no variable"),
            ("{scheme}://a", "scheme"),
            ("x://{+path}", "operator"),
            ("x://{a,b}", "operator"),
            ("x://{a*}", "operator"),
            ("x://{}", "operator"),
            ("x://{a", "no `}`"),
            ("x://{a}{b}", "touch"),
            ("x://{a}/{a}", "twice"),
            ("x://{a}/}", "URI"),
            ("x:// {a}", "URI"),
            ("Longshore://{a}", "own scheme"),
        ] {
            let error = UriTemplate::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        let many: String = (0..17).map(|n| format!("/{{v{n}}}")).collect();
        assert!(UriTemplate::parse(&format!("x:{many}")).is_err());
    }

    #[test]
    fn uris_have_a_scheme_of_their_own_and_only_a_uris_characters() {
        for uri in ["test://static-text", "file:///a%20b?q=1#f", "urn:isbn:0-1"] {
            assert_eq!(check_uri(uri), Ok(()), "{uri}");
        }
        for (uri, word) in [
            ("", "scheme"),
            ("no-scheme", "scheme"),
            ("1x:a", "scheme"),
            ("x:a b", "` `"),
            ("x:ü", "`ü`"),
            ("x:a\n", "URI"),
            ("x:%2", "two hexadecimal"),
            ("x:%zz", "two hexadecimal"),
            ("longshore://result/1", "own scheme"),
        ] {
            let error = check_uri(uri).unwrap_err();
            assert!(error.contains(word), "{uri}: {error}");
        }
    }

    #[test]
    fn templates_that_a_uri_could_fit_both_of_overlap() {
        for (one, two, overlap) in [
            ("x://item/{id}", "x://item/{n}", true),
            ("x://item/{id}", "x://item/1{n}", true),
            ("x://item/{id}", "x://{kind}/7", true),
            ("x://item/{id}", "x://item/{id}.txt", true),
            ("x://a{id}/b", "x://ab{id}/{n}", true),
            ("x:{a}-{b}", "x:{a}", true),
            ("x://item/{id}", "y://item/{id}", false),
            ("x://item/{id}", "x://item/{id}/data", false),
            ("x://item/{id}", "x://items/{id}", false),
            ("x://item/{id}", "x://{kind}/", false),
            ("x://{a}.txt", "x://{a}.csv", false),
            ("x://a{id}", "x://b{id}", false),
        ] {
            let (one, two) = (template(one), template(two));
            assert_eq!(one.may_overlap(&two), overlap, "{one:?} {two:?}");
            assert_eq!(two.may_overlap(&one), overlap, "{two:?} {one:?}");
        }
    }

    #[test]
    fn no_uri_fits_two_templates_that_do_not_overlap() {
        let parts = ["a", "/", "{v}", "b/"];
        let mut templates = Vec::new();
        for first in parts {
            for second in parts {
                for third in parts {
                    let numbered = format!("x:{first}{second}{third}").replacen("{v}", "{w}", 1);
                    templates.extend(UriTemplate::parse(&numbered));
                }
            }
        }
        let mut uris = vec!["x:".to_owned()];
        for length in 0..5 {
            let longest = uris.iter().filter(|uri| uri.len() == 2 + length);
            let longer = longest.flat_map(|uri| ["a", "b", "/"].map(|c| format!("{uri}{c}")));
            uris.extend(longer.collect::<Vec<_>>());
        }
        let mut shared = 0;
        for one in &templates {
            let fitting: Vec<_> = uris.iter().filter(|uri| one.fits(uri)).collect();
            for two in &templates {
                if let Some(uri) = fitting.iter().find(|uri| two.fits(uri)) {
                    shared += 1;
                    assert!(one.may_overlap(two), "{uri} of {one:?} {two:?}");
                }
            }
        }
        assert!(shared > templates.len(), "more than each with itself");
    }

    #[test]
    fn names_of_variables_make_no_other_family() {
        assert!(template("x://{a}/b/{c}").is_same_family(&template("x://{d}/b/{e}")));
        assert!(!template("x://{a}/b/{c}").is_same_family(&template("x://{a}/c/{c}")));
        assert!(!template("x://{a}").is_same_family(&template("x://{a}/")));
    }
}
