//! The `curl` command that sends a case's request again from a POSIX shell.

use crate::case::Case;

/// A body longer than this is left to the reader, who has the case file, bytes.
const BODY_MAX_BYTES: usize = 4 * 1024;

/// The command for `case` against `base_url`. Values of headers that carry credentials become shell
/// variables: the result of a run travels further than the case file does.
pub fn command(base_url: &str, case: &Case) -> String {
    let request = &case.request;
    // Globbing and path squashing would send another URL than the case did.
    let mut parts = vec!["curl -sSi --globoff --path-as-is".to_owned()];
    parts.push(format!(
        "--max-time {}.{:03}",
        case.time_limit_ms / 1000,
        case.time_limit_ms % 1000
    ));
    match request.method.as_str() {
        // With `-X HEAD` curl would wait for a body that never comes.
        "HEAD" => parts.push("--head".to_owned()),
        "GET" if request.body.is_none() => {}
        method => parts.push(format!("-X {}", quote(method))),
    }
    for (name, value) in &request.headers {
        parts.push(format!("-H {}", header(name, value)));
    }
    if let Some(body) = &request.body {
        if !request
            .headers
            .iter()
            .any(|(name, _)| name == "content-type")
        {
            // curl would call it a form; the case sends no such header.
            parts.push("-H 'content-type:'".to_owned());
        }
        if body.len() <= BODY_MAX_BYTES {
            parts.push(format!("--data-raw {}", quote(body)));
        } else {
            parts.push("--data-binary @request-body".to_owned());
        }
    }
    parts.push(quote(&url(base_url, &request.path)));
    if request
        .body
        .as_ref()
        .is_some_and(|body| body.len() > BODY_MAX_BYTES)
    {
        parts.push("# request-body: the body of the case, too long to show".to_owned());
    }
    parts.join(" ")
}

/// The whole URL of a case: `base_url` may have a path of its own.
pub fn url(base_url: &str, path: &str) -> String {
    format!("{}{path}", base_url.trim_end_matches('/'))
}

/// `text` as one word of a POSIX shell.
pub fn quote(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn header(name: &str, value: &str) -> String {
    if is_secret(name) {
        let variable: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_uppercase()
                } else {
                    '_'
                }
            })
            .collect();
        // A name may begin with a digit, a variable may not.
        return format!(
            "{}\"${{CASE_{variable}:?see the case file}}\"",
            quote(&format!("{name}: "))
        );
    }
    if value.is_empty() {
        // `name:` would remove the header instead of sending it empty.
        return quote(&format!("{name};"));
    }
    quote(&format!("{name}: {value}"))
}

fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 6] = ["auth", "cookie", "token", "secret", "password", "key"];
    PARTS.iter().any(|part| name.contains(part)) && name != "idempotency-key"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(text: &str) -> Case {
        Case::parse(&format!("{text}\nexpect.status = 200")).unwrap()
    }

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        let table = [
            ("plain", "plain"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME `id` \\", r"'$HOME `id` \'"),
            ("two\nlines", "'two\nlines'"),
            ("a&b?c=*", "'a&b?c=*'"),
            ("é", "'é'"),
        ];
        for (text, quoted) in table {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        let hard = "it's \"$HOME\" `id` \\ \n * ~ é !x ; & |";
        let output = std::process::Command::new("sh")
            .args(["-c", &format!("printf %s {}", quote(hard))])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), hard);
    }

    #[test]
    fn commands_say_what_the_case_sends() {
        let table = [
            (
                "request.path = '/health'",
                "curl -sSi --globoff --path-as-is --max-time 10.000 http://h:1/api/health",
            ),
            (
                "time_limit_ms = 50\nrequest = { method = 'HEAD', path = '/a?b=[1]' }",
                "curl -sSi --globoff --path-as-is --max-time 0.050 --head 'http://h:1/api/a?b=[1]'",
            ),
            (
                "request = { method = 'POST', path = '/', json = { a = \"it's\" } }",
                "curl -sSi --globoff --path-as-is --max-time 10.000 -X POST \
                 -H 'content-type: application/json' --data-raw '{\"a\":\"it'\\''s\"}' http://h:1/api/",
            ),
            (
                "request = { method = 'PUT', path = '/', body = '@x', headers = { x-a = '' } }",
                "curl -sSi --globoff --path-as-is --max-time 10.000 -X PUT -H 'x-a;' \
                 -H 'content-type:' --data-raw @x http://h:1/api/",
            ),
            (
                "request = { path = '/', headers = { Authorization = 'Bearer s3cret' } }",
                "curl -sSi --globoff --path-as-is --max-time 10.000 \
                 -H 'authorization: '\"${CASE_AUTHORIZATION:?see the case file}\" http://h:1/api/",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(command("http://h:1/api/", &case(text)), expected);
        }
    }

    #[test]
    fn a_long_body_is_left_to_the_reader() {
        let text = format!(
            "request = {{ method = 'POST', path = '/', body = '{}' }}",
            "x".repeat(BODY_MAX_BYTES + 1)
        );
        let command = command("http://h", &case(&text));
        assert!(command.len() < 300, "{command}");
        assert!(command.contains("--data-binary @request-body"), "{command}");
    }
}
