//! Judges an answer by what its case expects. Pure: it neither sends nor counts.

use serde_json::Value;

use crate::case::{Case, Expect};
use crate::subset;
use crate::text::excerpt;

/// Of an answer's body that is shown, bytes.
const BODY_EXCERPT_BYTES: usize = 400;

/// Of one expected or actual value that is shown, bytes.
const VALUE_EXCERPT_BYTES: usize = 160;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub duration_ms: u64,
}

/// How a case failed. Texts are bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One line.
    pub reason: String,
    pub expected: String,
    pub actual: String,
}

/// One thing that is not as expected.
struct Difference {
    place: String,
    expected: String,
    actual: String,
}

/// None when the answer is as `case` expects.
pub fn judge(case: &Case, answer: &Answer) -> Option<Failure> {
    let mut differences = Vec::new();
    if case.expect.status.contains(&answer.status) {
        compare_headers(&case.expect, answer, &mut differences);
        compare_json(&case.expect, answer, &mut differences);
    } else {
        // The rest of an answer of another status only repeats that it is another answer.
        differences.push(Difference {
            place: "status".to_owned(),
            expected: list(&case.expect.status),
            actual: answer.status.to_string(),
        });
    }
    if answer.duration_ms > case.time_limit_ms {
        differences.push(Difference {
            place: "time".to_owned(),
            expected: format!("at most {} ms", case.time_limit_ms),
            actual: format!("{} ms", answer.duration_ms),
        });
    }
    (!differences.is_empty()).then(|| failure(&differences, answer))
}

/// The case failed without an answer.
pub fn without_answer(case: &Case, cause: &str) -> Failure {
    Failure {
        reason: format!("no answer: {}", excerpt(cause, VALUE_EXCERPT_BYTES)),
        expected: format!("status: {}", list(&case.expect.status)),
        actual: excerpt(cause, BODY_EXCERPT_BYTES),
    }
}

/// The case failed because its answer took too long to be waited for.
pub fn too_slow(case: &Case) -> Failure {
    Failure {
        reason: format!("no whole answer within {} ms", case.time_limit_ms),
        expected: format!("time: at most {} ms", case.time_limit_ms),
        actual: "the request was given up".to_owned(),
    }
}

/// The file is not a case.
pub fn broken(cause: &str) -> Failure {
    Failure {
        reason: format!("not a case: {}", excerpt(cause, VALUE_EXCERPT_BYTES)),
        expected: "a case file (see the plugin's page)".to_owned(),
        actual: excerpt(cause, BODY_EXCERPT_BYTES),
    }
}

fn compare_headers(expect: &Expect, answer: &Answer, differences: &mut Vec<Difference>) {
    for (name, wanted) in &expect.headers {
        let values: Vec<&str> = answer
            .headers
            .iter()
            .filter(|(present, _)| present.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        let fits = |value: &&str| match wanted.strip_suffix('*') {
            Some(prefix) => value.starts_with(prefix),
            None => *value == wanted,
        };
        if !values.iter().any(fits) {
            differences.push(Difference {
                place: format!("header {name}"),
                expected: wanted.clone(),
                actual: if values.is_empty() {
                    "nothing".to_owned()
                } else {
                    values.join(", ")
                },
            });
        }
    }
}

fn compare_json(expect: &Expect, answer: &Answer, differences: &mut Vec<Difference>) {
    let Some(wanted) = &expect.json else {
        return;
    };
    match serde_json::from_slice::<Value>(&answer.body) {
        Ok(present) => {
            for mismatch in subset::mismatches(wanted, &present) {
                let place = match mismatch.pointer.as_str() {
                    "" => "json".to_owned(),
                    pointer => format!("json {pointer}"),
                };
                differences.push(Difference {
                    place,
                    expected: mismatch.expected,
                    actual: mismatch.actual,
                });
            }
        }
        Err(error) => differences.push(Difference {
            place: "json".to_owned(),
            expected: "a JSON body".to_owned(),
            actual: format!("not JSON: {error}"),
        }),
    }
}

fn failure(differences: &[Difference], answer: &Answer) -> Failure {
    let first = &differences[0];
    let mut reason = format!(
        "{} is {} instead of {}",
        excerpt(&first.place, VALUE_EXCERPT_BYTES),
        excerpt(&first.actual, VALUE_EXCERPT_BYTES),
        excerpt(&first.expected, VALUE_EXCERPT_BYTES),
    );
    if differences.len() > 1 {
        reason.push_str(&format!(", and {} more", differences.len() - 1));
    }
    let lines = |side: fn(&Difference) -> &str| {
        differences
            .iter()
            .take(subset::DIFFERENCES_MAX)
            .map(|difference| {
                format!(
                    "{}: {}",
                    excerpt(&difference.place, VALUE_EXCERPT_BYTES),
                    excerpt(side(difference), VALUE_EXCERPT_BYTES)
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
    };
    let mut actual = lines(|difference| &difference.actual);
    if !answer.body.is_empty() {
        let body = String::from_utf8_lossy(&answer.body);
        actual.push_str(&format!("\nbody: {}", excerpt(&body, BODY_EXCERPT_BYTES)));
    }
    Failure {
        reason,
        expected: lines(|difference| &difference.expected),
        actual,
    }
}

fn list(statuses: &[u16]) -> String {
    let texts: Vec<String> = statuses.iter().take(8).map(u16::to_string).collect();
    texts.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(expect: &str) -> Case {
        Case::parse(&format!(
            "time_limit_ms = 100\nrequest.path = '/'\n[expect]\n{expect}"
        ))
        .unwrap()
    }

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        Answer {
            status,
            headers: headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            body: body.as_bytes().to_vec(),
            duration_ms: 100,
        }
    }

    #[test]
    fn an_answer_as_expected_passes() {
        let table = [
            ("status = 204", answer(204, &[], "")),
            ("status = [200, 404]", answer(404, &[], "x")),
            (
                "status = 200\nheaders = { Content-Type = 'text/*', X-A = '1' }",
                answer(
                    200,
                    &[("content-type", "text/plain"), ("X-a", "0"), ("x-A", "1")],
                    "",
                ),
            ),
            (
                "status = 200\njson = { a = [1, '...'] }",
                answer(200, &[], r#"{"a": [1, 2], "b": 0}"#),
            ),
        ];
        for (expect, answer) in table {
            assert_eq!(judge(&case(expect), &answer), None, "{expect}");
        }
    }

    #[test]
    fn an_answer_that_differs_says_where_first() {
        let table = [
            (
                "status = [200, 201]",
                answer(500, &[], "boom"),
                "status is 500 instead of 200 or 201",
            ),
            (
                "status = 200\nheaders = { etag = '1' }",
                answer(200, &[], ""),
                "header etag is nothing instead of 1",
            ),
            (
                "status = 200\nheaders = { etag = '1' }\njson = { a = 1 }",
                answer(200, &[("etag", "2")], "{}"),
                "header etag is 2 instead of 1, and 1 more",
            ),
            (
                "status = 200\njson = { a = { b = 1 } }",
                answer(200, &[], r#"{"a": {"b": 2}}"#),
                "json /a/b is 2 instead of 1",
            ),
            (
                "status = 200\njson = {}",
                answer(200, &[], "<html>"),
                "json is not JSON: expected value at line 1 column 1 instead of a JSON body",
            ),
        ];
        for (expect, answer, reason) in table {
            assert_eq!(judge(&case(expect), &answer).unwrap().reason, reason);
        }
    }

    #[test]
    fn both_sides_are_shown_with_the_body() {
        let failure = judge(
            &case("status = 200\nheaders = { etag = '1' }\njson = { a = 1 }"),
            &answer(200, &[], r#"{"a": 2}"#),
        )
        .unwrap();
        assert_eq!(failure.expected, "header etag: 1\njson /a: 1");
        assert_eq!(
            failure.actual,
            "header etag: nothing\njson /a: 2\nbody: {\"a\": 2}"
        );
    }

    #[test]
    fn an_answer_after_its_time_fails() {
        let mut late = answer(200, &[], "");
        late.duration_ms = 101;
        let failure = judge(&case("status = 200"), &late).unwrap();
        assert_eq!(failure.reason, "time is 101 ms instead of at most 100 ms");
    }

    #[test]
    fn texts_stay_bounded_whatever_comes_back() {
        let huge = "é".repeat(1_000_000);
        let body = format!("\"{huge}\"");
        let case = case(&format!("status = 200\njson = '{}'", "x".repeat(100_000)));
        let failure = judge(&case, &answer(200, &[], &body)).unwrap();
        let size = failure.reason.len() + failure.expected.len() + failure.actual.len();
        assert!(size < 2_000, "{size} bytes");
    }
}
