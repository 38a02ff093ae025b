use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::harm::{changed, changes, count_taken, edited, edits};
use crate::plain::drives_display;
use crate::task::{Answer, Ask};

fn parsed(schema: &Value) -> Schema {
    Schema::parse(&schema.to_string()).unwrap()
}

fn refused(schema: &Value) -> String {
    match Schema::parse(&schema.to_string()) {
        Ok(_) => panic!("{schema} was taken"),
        Err(error) => error.to_string(),
    }
}

fn found(schema: &Schema, value: &Value) -> String {
    match schema.check(value) {
        Ok(()) => String::new(),
        Err(mismatch) => mismatch.0.join("\n"),
    }
}

#[test]
fn what_is_wrong_is_told_with_its_path() {
    let schema = parsed(&json!({
        "type": "object",
        "required": ["file", "mode"],
        "properties": {
            "file": {"type": "string", "minLength": 1},
            "mode": {"enum": ["fast", "exact"]},
            "limits": {
                "type": "object",
                "required": ["rows"],
                "additionalProperties": false,
                "properties": {"rows": {"type": "integer", "maximum": 10}},
            },
            "columns": {"type": "array", "items": {"type": "string"}},
        },
    }));
    assert_eq!(found(&schema, &json!({"file": "x", "mode": "fast"})), "");
    let wrong = json!({
        "file": "",
        "limits": {"rows": 11, "cols": 1},
        "columns": ["a", 5],
        "colums": [],
    });
    insta::assert_snapshot!(found(&schema, &wrong), @r#"
    /colums: is not known; known are columns, file, limits, mode
    /mode: is missing
    /columns/1: 5 is not of type "string"
    /file: "" is shorter than 1 character
    /limits/rows: 11 is greater than the maximum of 10
    /limits/cols: is not known
    "#);
}

#[test]
fn a_value_is_shown_in_part_and_findings_are_few() {
    let schema = parsed(&json!({
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }));
    let secret = "s3cret ".repeat(1_000);
    let many: Map<String, Value> = (0..50)
        .map(|n| (format!("{n:02}{secret}"), Value::String(secret.clone())))
        .collect();
    let findings = schema.check(&Value::Object(many)).unwrap_err().0;
    assert_eq!(findings.len(), 10);
    assert!(findings.iter().all(|line| line.chars().count() <= 410));
}

#[test]
fn unknown_arguments_are_refused_unless_the_schema_speaks_of_them() {
    let closed = json!({"type": "object", "properties": {"a": {}}});
    let schema = parsed(&closed);
    assert_eq!(
        found(&schema, &json!({"b": 1})),
        "/b: is not known; known are a"
    );
    assert_eq!(schema.text(), closed.to_string());
    schema.check_output(&json!({"b": 1})).unwrap();
    let none = parsed(&json!({"type": "object"}));
    assert_eq!(
        found(&none, &json!({"b": 1})),
        "/b: is not known; none are taken"
    );
    for opening in [
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "patternProperties": {"^b": {}}}),
        json!({"type": "object", "allOf": [{"properties": {"b": {}}}]}),
        json!({"type": "object", "$ref": "#/$defs/d", "$defs": {"d": {"properties": {"b": {}}}}}),
    ] {
        assert_eq!(found(&parsed(&opening), &json!({"b": 1})), "", "{opening}");
    }
}

#[test]
fn the_keywords_of_2020_12_are_taken() {
    let schema = parsed(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/tool",
        "type": "object",
        "$defs": {
            "address": {"$anchor": "address", "type": "object", "properties": {"street": {"type": "string"}}},
            "a b": {"type": "integer"},
        },
        "properties": {
            "home": {"$ref": "#address"},
            "work": {"$ref": "#/$defs/address"},
            "age": {"$ref": "#/$defs/a%20b"},
            "pair": {"prefixItems": [{"type": "string"}], "items": false},
        },
        "if": {"required": ["work"]},
        "then": {"required": ["home"]},
        "unevaluatedProperties": false,
    }));
    assert_eq!(
        found(
            &schema,
            &json!({"home": {"street": "x"}, "age": 3, "pair": ["a"]})
        ),
        ""
    );
    insta::assert_snapshot!(
        found(&schema, &json!({"work": {"street": 1}, "age": "x", "pair": ["a", "b"], "more": 1})),
        @r#"
    /age: "x" is not of type "integer"
    /pair/1: nothing is allowed here
    /work/street: 1 is not of type "string"
    /home: is missing
    /more: is not known
    "#
    );
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_the_place() {
    let deep = (0..40).fold(json!({}), |inner, _| json!({"not": inner}));
    let wide: Vec<Value> = (0..2_001).map(|_| json!(true)).collect();
    let patterns: Vec<Value> = (0..33).map(|n| json!({"pattern": n.to_string()})).collect();
    let table = [
        json!(true),
        json!({"type": "array"}),
        json!({"type": ["object", "null"]}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}),
        json!({"type": "object", "properties": {"a": {"type": "strin"}}}),
        json!({"type": "object", "properties": {"a": 5}}),
        json!({"type": "object", "properties": {"a": {"pattern": "(?=x)"}}}),
        json!({"type": "object", "properties": {"a": {"pattern": "((a{100}){100}){100}"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "http://example.com/s"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/properties"}}}),
        json!({"type": "object", "properties": {"a": {"$id": "x"}}}),
        json!({"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}),
        json!({"type": "object", "$ref": "#"}),
        json!({"type": "object", "not": deep}),
        json!({"type": "object", "allOf": wide}),
        json!({"type": "object", "allOf": patterns}),
    ];
    let told: Vec<String> = table.iter().map(refused).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    /: the schema must be an object with `"type": "object"`
    /: the schema must be an object with `"type": "object"`
    /: the schema must be an object with `"type": "object"`
    /: `$schema` must be https://json-schema.org/draft/2020-12/schema or left out
    /properties/a/type: "strin" is not valid under any of the schemas listed in the 'anyOf' keyword
    /properties/a: 5 is not of types "boolean", "object"
    /properties/a/pattern: is not a pattern that is taken: one without look-around, and not too large
    /properties/a/pattern: is not a pattern that is taken: one without look-around, and not too large
    /properties/a/$ref: only references within the schema are taken (`#/$defs/name`)
    /properties/a/$ref: no subschema is there
    /properties/a/$ref: no subschema is there
    /properties/a: `$id` may stand only at the root
    /properties/a: `$dynamicRef` and `$recursiveRef` are not taken; use `$ref`
    /: a `$ref` leads back here without going down a level
    the schema nests deeper than 32 levels; move parts of it to `$defs`
    /allOf/1999: the schema has more than 2000 subschemas
    /allOf/32: the schema has more than 32 patterns
    "#);
    assert!(Schema::parse("{").is_err());
    assert!(Schema::parse(&" ".repeat(70_000)).is_err());
    assert!(Schema::parse(&"[".repeat(60_000)).is_err());
}

/// I6: a schema of a few lines that asks for work without end.
#[test]
fn a_schema_that_doubles_the_work_at_every_step_is_refused() {
    let mut defs = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d40".into(), json!({"minProperties": 1}));
    let told = refused(&json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs}));
    assert!(told.contains("too much work"), "{told}");
}

/// I6: the same by way of the value's depth.
#[test]
fn a_value_that_doubles_the_work_at_every_level_is_refused() {
    let down = json!({"properties": {"a": {"$ref": "#"}}});
    let schema = parsed(&json!({"type": "object", "allOf": [down, down]}));
    let nested = |depth| (0..depth).fold(json!({}), |inner, _| json!({"a": inner}));
    assert_eq!(found(&schema, &nested(10)), "");
    let began = Instant::now();
    assert_eq!(
        found(&schema, &nested(100)),
        "/: the value nests too deeply for this schema"
    );
    // Two to the hundredth would not end; this is no measurement.
    assert!(began.elapsed().as_secs() < 10);
}

#[test]
fn a_recursive_schema_takes_deep_values() {
    let schema = parsed(&json!({
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
    }));
    let list = (0..100).fold(Value::Null, |next, n| json!({"value": n, "next": next}));
    assert_eq!(found(&schema, &list), "");
    let long: Vec<Value> = (0..100_000).map(|n| json!(n)).collect();
    let schema = parsed(&json!({
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "integer"}}},
    }));
    assert_eq!(found(&schema, &json!({"rows": long})), "");
}

#[test]
fn header_parameters_are_found_by_their_path() {
    let schema = parsed(&json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "x-mcp-header": {"type": "string"},
            "at": {"type": "object", "properties": {"shard": {"type": "integer", "x-mcp-header": "Shard"}}},
        },
    }));
    let mut headers = header_params(&schema).unwrap();
    headers.sort();
    assert_eq!(
        headers,
        [
            ("Region".to_owned(), vec!["region".to_owned()]),
            (
                "Shard".to_owned(),
                vec!["at".to_owned(), "shard".to_owned()]
            ),
        ]
    );
}

#[test]
fn header_parameters_against_the_rules_are_refused() {
    let string = |name: &str| json!({"type": "string", "x-mcp-header": name});
    let table = [
        json!({"type": "object", "properties": {"a": string("")}}),
        json!({"type": "object", "properties": {"a": string("a b")}}),
        json!({"type": "object", "properties": {"a": string("a\r\nb")}}),
        json!({"type": "object", "properties": {"a": string("Way"), "b": string("way")}}),
        json!({"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
        json!({"type": "object", "properties": {"a": {"x-mcp-header": "A"}}}),
        json!({"type": "object", "properties": {"a": {"type": "array", "items": string("A")}}}),
        json!({"type": "object", "anyOf": [{"properties": {"a": string("A")}}]}),
        json!({"type": "object", "$defs": {"a": string("A")}, "properties": {"a": {"$ref": "#/$defs/a"}}}),
    ];
    let told: Vec<String> = table
        .iter()
        .map(|schema| header_params(&parsed(schema)).unwrap_err().to_string())
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    /properties/a/x-mcp-header: must be a header's name: letters, digits and !#$%&'*+-.^_`|~
    /properties/a/x-mcp-header: must be a header's name: letters, digits and !#$%&'*+-.^_`|~
    /properties/a/x-mcp-header: must be a header's name: letters, digits and !#$%&'*+-.^_`|~
    /properties/b/x-mcp-header: another argument has the same header; capitals make no difference
    /properties/a/x-mcp-header: only an argument of type string, integer or boolean has a header
    /properties/a/x-mcp-header: only an argument of type string, integer or boolean has a header
    /properties/a/items/x-mcp-header: only what is reached by `properties` alone has a header
    /anyOf/0/properties/a/x-mcp-header: only what is reached by `properties` alone has a header
    /$defs/a/x-mcp-header: only what is reached by `properties` alone has a header
    "#);
}

#[test]
fn a_form_of_every_kind_of_field_is_taken() {
    check_form(&every_field().to_string()).unwrap();
}

#[test]
fn a_form_no_client_can_show_is_refused_with_the_place() {
    let field = |field: Value| json!({"type": "object", "properties": {"f": field}});
    let table = [
        json!({"type": "string"}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}, "allOf": []}),
        json!({"type": "object", "properties": {}, "required": ["f"]}),
        json!({"type": "object", "properties": {}, "additionalProperties": {}}),
        field(json!(true)),
        field(json!({"type": "object", "properties": {}})),
        field(json!({"type": ["string", "null"]})),
        field(json!({"$ref": "#/x"})),
        field(json!({"type": "string", "format": "password"})),
        field(json!({"type": "string", "pattern": "a+"})),
        field(json!({"type": "string", "minLength": "x"})),
        field(json!({"type": "string", "enum": []})),
        field(json!({"type": "string", "enum": ["a", "a"]})),
        field(json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A"]})),
        field(json!({"type": "string", "oneOf": [{"const": "a"}]})),
        field(json!({"type": "array", "items": {"type": "string"}})),
        field(json!({"type": "array", "items": {"enum": ["a"]}})),
        field(json!({"type": "integer", "default": "x"})),
        field(json!({"type": "string", "enum": ["a"], "default": "b"})),
    ];
    let told: Vec<String> = table
        .iter()
        .map(|form| check_form(&form.to_string()).unwrap_err().to_string())
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    /: the schema must be an object with `"type": "object"`
    /properties: a form has `properties`, an object of its fields
    /allOf: is not for forms here; what is: $schema, type, properties, required, additionalProperties, title, description
    /required: `f` is not a field
    /additionalProperties: may only be true or false in a form
    /properties/f: a field is an object with a `type`
    /properties/f: a field's `type` is string, number, integer, boolean, or array for a selection; a field that may be empty is one that is not `required`
    /properties/f: a field's `type` is string, number, integer, boolean, or array for a selection; a field that may be empty is one that is not `required`
    /properties/f: a field's `type` is string, number, integer, boolean, or array for a selection; a field that may be empty is one that is not `required`
    /properties/f/format: must be one of email, uri, date, date-time
    /properties/f/pattern: is not for forms here; what is: type, title, description, default, minLength, maxLength, format
    /properties/f/minLength: "x" is not of type "integer"
    /properties/f/enum: must be 1 to 256 different choices
    /properties/f/enum: must be 1 to 256 different choices
    /properties/f/enumNames: must have as many names as `enum` has values
    /properties/f/oneOf: each choice has a `const` and a `title`, both strings
    /properties/f/items: an array in a form is a selection: `items` with `enum` or `anyOf`
    /properties/f/items: the choices of a selection have the type string
    /properties/f/default: does not fit the field (/: "x" is not of type "integer")
    /properties/f/default: does not fit the field (/: "b" is not one of "a")
    "#);
}

#[test]
fn a_fields_name_is_something_to_read() {
    let named = |name: &str| {
        let form = json!({"type": "object", "properties": {name: {"type": "boolean"}}});
        check_form(&form.to_string())
    };
    let longest = "é".repeat(128);
    for name in ["größe", "a b", longest.as_str()] {
        named(name).unwrap();
    }
    let longer = "é".repeat(129);
    let driving = ["a\u{1b}[2J", "a\nb", "a\u{9b}31m", "a\u{202e}b", "a\u{61c}"];
    for name in driving.into_iter().chain(["", &longer]) {
        let told = named(name).unwrap_err().to_string();
        assert!(told.contains("a field's name is 1 to 128"), "{told:?}");
        assert!(!told.contains(drives_display), "{told:?}");
    }
}

#[test]
fn answers_to_a_form_are_read() {
    let ask = form(&every_field());
    let content = json!({"name": "Ada", "mail": "ada@example.com", "tags": ["a"]});
    let accepted = read_answer(&ask, &json!({"action": "accept", "content": content})).unwrap();
    assert_eq!(accepted, Answer::Accept(Some(content.to_string())));
    let refusals = [("decline", Answer::Decline), ("cancel", Answer::Dismiss)];
    for (action, answer) in refusals {
        assert_eq!(
            read_answer(&ask, &json!({"action": action})).unwrap(),
            answer
        );
    }
}

#[test]
fn members_that_a_form_does_not_have_are_left_out() {
    let ask = form(&json!({"type": "object", "properties": {"ok": {"type": "boolean"}}}));
    let response = json!({"action": "accept", "content": {"ok": true, "more": 1}});
    let answer = read_answer(&ask, &response).unwrap();
    assert_eq!(answer, Answer::Accept(Some(r#"{"ok":true}"#.into())));
    let bare = read_answer(&ask, &json!({"action": "accept"})).unwrap();
    assert_eq!(bare, Answer::Accept(Some("{}".into())));
}

#[test]
fn answers_that_do_not_fit_are_refused_with_the_field() {
    let ask = form(&every_field());
    let table = [
        json!([]),
        json!({}),
        json!({"action": "yes"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": "x"}),
        json!({"action": "accept", "content": {"name": "", "mail": "nobody"}}),
        json!({"action": "accept", "content": {"name": "x", "age": 1.5, "color": "grey", "tags": ["z"]}}),
        json!({"action": "accept", "content": {"name": "x", "day": "2026-13-01"}}),
    ];
    let told: Vec<String> = table
        .iter()
        .map(|response| read_answer(&ask, response).unwrap_err().to_string())
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    /: the response must be an object
    /action: must be `accept`, `decline` or `cancel`
    /action: must be `accept`, `decline` or `cancel`
    /name: is missing
    /content: must be an object of the form's fields
    /mail: "nobody" is not a "email"; /name: "" is shorter than 1 character
    /age: 1.5 is not of type "integer"; /color: "grey" is not one of "red" or "green"; /tags/0: "z" is not one of "a" or "b"
    /day: "2026-13-01" is not a "date"
    "#);
}

#[test]
fn answers_to_other_questions_have_their_own_shape() {
    let url = Ask::Url {
        message: "look".into(),
        url: "https://example.com".into(),
    };
    let accepted = read_answer(&url, &json!({"action": "accept"})).unwrap();
    assert_eq!(accepted, Answer::Accept(None));
    let sampling = Ask::Sampling("{}".into());
    let message =
        json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}});
    let answer = read_answer(&sampling, &message).unwrap();
    assert_eq!(answer, Answer::Value(message.to_string()));
    let roots = json!({"roots": [{"uri": "file:///x"}]});
    let answer = read_answer(&Ask::Roots, &roots).unwrap();
    assert_eq!(answer, Answer::Value(roots.to_string()));
    for (ask, response) in [
        (
            &sampling,
            json!({"model": "m", "content": {"type": "text"}}),
        ),
        (
            &sampling,
            json!({"role": "user", "content": {"type": "text"}}),
        ),
        (
            &sampling,
            json!({"role": "user", "model": "m", "content": "text"}),
        ),
        (&Ask::Roots, json!({"roots": ["file:///x"]})),
        (&Ask::Roots, json!({})),
        (&url, json!({"action": "ok"})),
    ] {
        assert!(read_answer(ask, &response).is_err(), "{response}");
    }
}

fn form(schema: &Value) -> Ask {
    Ask::Form {
        message: "fill in".into(),
        schema: schema.to_string(),
    }
}

fn every_field() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "About you",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 20, "default": "Ada"},
            "mail": {"type": "string", "format": "email"},
            "day": {"type": "string", "format": "date"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 30, "format": "uint8"},
            "score": {"type": "number", "description": "Of ten", "default": 9.5},
            "sure": {"type": "boolean", "default": false},
            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "legacy": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
            "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2, "default": ["a"]},
            "more": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        },
    })
}

/// Keywords with values they were not made for, nested.
fn any_schema() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "$ref",
        "$defs",
        "enum",
        "const",
        "pattern",
        "required",
        "minimum",
        "maxLength",
        "additionalProperties",
        "if",
        "format",
        "$dynamicRef",
        "$id",
        "x-mcp-header",
    ]);
    let leaf = prop_oneof![
        Just(json!("object")),
        Just(json!("#")),
        Just(json!("#/$defs/a")),
        Just(json!("(a+)+$")),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        let members = prop::collection::btree_map(word.clone(), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| {
                let members = members.into_iter();
                Value::Object(
                    members
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

proptest! {
    // Fewer than usual, because each compiles a validator; `PROPTEST_CASES` asks for more.
    #![proptest_config(match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(64),
    })]

    #[test]
    fn any_schema_is_taken_or_refused_in_words(mut schema in any_schema(), value in any_schema()) {
        if let Some(members) = schema.as_object_mut() {
            members.insert("type".to_owned(), json!("object"));
        }
        match Schema::parse(&schema.to_string()) {
            Ok(parsed) => {
                let _ = parsed.check(&value);
            }
            Err(SchemaError(words)) => prop_assert!(!words.is_empty()),
        }
    }

    #[test]
    fn a_harmed_schema_is_taken_or_refused_in_words_and_checks_in_no_time(
        schema in prop::sample::select(real_schemas()),
        changes_of_schema in changes(WORDS),
        edits in edits(),
        value in prop::sample::select(real_values()),
        changes_of_value in changes(WORDS),
    ) {
        let harmed = changed(&schema, &changes_of_schema).to_string();
        let value = changed(&value, &changes_of_value);
        let garbled = edited(harmed.as_bytes(), &edits);
        for text in [&harmed, &*String::from_utf8_lossy(&garbled)] {
            let began = Instant::now();
            match Schema::parse(text) {
                Ok(parsed) => {
                    prop_assert_eq!(parsed.text(), text);
                    let _ = header_params(&parsed);
                    for findings in [parsed.check(&value), parsed.check_output(&value)] {
                        let Err(Mismatch(lines)) = findings else { continue };
                        prop_assert!((1..=10).contains(&lines.len()));
                    }
                }
                Err(SchemaError(words)) => prop_assert!(!words.is_empty()),
            }
            if check_form(text).is_ok() {
                let ask = Ask::Form { message: String::new(), schema: text.to_owned() };
                let response = json!({"action": "accept", "content": value});
                if let Ok(Answer::Accept(content)) = read_answer(&ask, &response) {
                    prop_assert!(serde_json::from_str::<Map<String, Value>>(&content.unwrap()).is_ok());
                }
            }
            // Far more than any takes on a busy machine; work without end would not be over.
            prop_assert!(began.elapsed().as_secs() < 20, "{text} on {value}");
        }
    }
}

#[test]
fn harm_to_a_schema_gets_past_the_first_look() {
    let harm = (prop::sample::select(real_schemas()), changes(WORDS));
    let taken = count_taken(harm, |(schema, changes)| {
        Schema::parse(&changed(&schema, &changes).to_string()).is_ok()
    });
    assert!((60..240).contains(&taken), "{taken}");
}

const WORDS: &[&str] = &[
    "type",
    "object",
    "array",
    "string",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "dependentSchemas",
    "items",
    "prefixItems",
    "contains",
    "uniqueItems",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "$ref",
    "$defs",
    "$id",
    "$anchor",
    "$dynamicRef",
    "#",
    "#/$defs/tree",
    "#/properties/a",
    "pattern",
    "(a+)+$",
    "((a{9}){9}){9}",
    "enum",
    "required",
    "format",
    "x-mcp-header",
    "a",
    "b",
];

/// Schemas as tools and questions have them, from plain to recursive.
fn real_schemas() -> Vec<Value> {
    vec![
        every_field(),
        json!({
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": "string", "minLength": 1, "pattern": "^[a-z]+$", "x-mcp-header": "A"},
                "b": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/tree"}]}},
                "c": {"oneOf": [{"const": 1}, {"type": "object", "properties": {"a": {"$ref": "#"}}}]},
            },
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"$ref": "#/$defs/tree"}},
                    "additionalProperties": false,
                },
            },
        }),
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "if": {"required": ["b"]},
            "then": {"required": ["a"]},
            "allOf": [{"patternProperties": {"^[ab]$": {"$anchor": "leaf", "type": ["object", "null"]}}}],
            "dependentSchemas": {"c": {"properties": {"a": {"$ref": "#leaf"}}}},
            "properties": {"b": {"prefixItems": [{"type": "string"}], "contains": {"const": "a"}, "uniqueItems": true}},
            "unevaluatedProperties": {"not": {"enum": ["a", "b"]}},
        }),
    ]
}

fn real_values() -> Vec<Value> {
    vec![
        json!({"name": "Ada", "mail": "ada@example.com", "tags": ["a"], "age": 30}),
        json!({"a": "aaaaaaaaaaaaaaaaaaaaaaaa", "b": [1, {"a": {"b": {"a": {}}}}], "c": {"a": {"a": "a"}}}),
        json!({"a": null, "b": ["a", "b"], "c": 1, "d": [[[[1]]]]}),
    ]
}
