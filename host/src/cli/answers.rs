//! Answers to a task's questions, made from words or defaults. Pure: no terminal here.

use serde_json::{Map, Value, json};

use super::arguments::{split, typed_for};
use super::questions::{Field, FieldKind, Question, QuestionKind};
use super::text;

/// Names of what can be answered, shown at once.
const NAMES_MAX_CHARS: usize = 600;

/// An accepted form, or URL when there is no content.
pub fn accept(content: Option<Map<String, Value>>) -> Value {
    match content {
        Some(content) => json!({ "action": "accept", "content": content }),
        None => json!({ "action": "accept" }),
    }
}

pub fn decline() -> Value {
    json!({ "action": "decline" })
}

pub fn dismiss() -> Value {
    json!({ "action": "cancel" })
}

/// What `--yes` answers: true to what can be confirmed, else the default, else the first choice.
/// The error says which field has none of these.
pub fn yes(question: &Question) -> Result<Value, String> {
    let fields = match &question.kind {
        QuestionKind::Form(fields) => fields,
        QuestionKind::Url(_) => return Ok(accept(None)),
        QuestionKind::Other(method) => {
            return Err(format!(
                "`{}` asks for {}, which this client can't do",
                text::name(&question.key),
                text::name(method)
            ));
        }
    };
    let mut content = Map::new();
    for field in fields {
        match (&field.kind, &field.default) {
            (FieldKind::Boolean, _) => content.insert(field.name.clone(), Value::Bool(true)),
            (_, Some(default)) => content.insert(field.name.clone(), default.clone()),
            (_, None) if !field.required => None,
            (FieldKind::One(options), None) if !options.is_empty() => {
                content.insert(field.name.clone(), options[0].0.clone().into())
            }
            (_, None) => {
                return Err(format!(
                    "`{}` asks for `{}`, which has no default",
                    text::name(&question.key),
                    text::name(&field.name)
                ));
            }
        };
    }
    Ok(accept(Some(content)))
}

/// Makes answers of `name=value` words, where a name is a field, `KEY.FIELD`, or the key of a
/// question with one field. Every question named is answered; fields left out get their defaults.
pub fn from_words(questions: &[Question], words: &[String]) -> Result<Map<String, Value>, String> {
    let mut contents: Map<String, Value> = Map::new();
    for word in words {
        let (name, text) = split(word)?;
        let (key, field) = find(questions, name)?;
        let value =
            typed_for(text, &field.schema).map_err(|wanted| format!("`{name}` takes {wanted}"))?;
        contents.entry(key).or_insert_with(|| json!({}))[&field.name] = value;
    }
    let mut answers = Map::new();
    for (key, mut content) in contents {
        let question = questions.iter().find(|question| question.key == key);
        if let Some(QuestionKind::Form(fields)) = question.map(|question| &question.kind) {
            for field in fields {
                match (&field.default, content.get(&field.name)) {
                    (Some(default), None) => content[&field.name] = default.clone(),
                    (None, None) if field.required => {
                        let (key, field) = (text::name(&key), text::name(&field.name));
                        return Err(format!("`{key}` needs `{field}`, too"));
                    }
                    _ => {}
                }
            }
        }
        answers.insert(key, json!({ "action": "accept", "content": content }));
    }
    Ok(answers)
}

fn find<'a>(questions: &'a [Question], name: &str) -> Result<(String, &'a Field), String> {
    let mut by_field = Vec::new();
    for question in questions {
        let QuestionKind::Form(fields) = &question.kind else {
            continue;
        };
        for field in fields {
            let is_whole = name
                .strip_prefix(&question.key)
                .and_then(|rest| rest.strip_prefix('.'))
                == Some(field.name.as_str());
            if is_whole || (name == question.key && fields.len() == 1) {
                return Ok((question.key.clone(), field));
            }
            if name == field.name {
                by_field.push((question.key.clone(), field));
            }
        }
    }
    match by_field.len() {
        1 => Ok(by_field.remove(0)),
        0 => Err(format!(
            "nothing asks for `{name}`; open: {}",
            open_names(questions)
        )),
        _ => Err(format!(
            "several questions ask for `{name}`; say which: {}",
            open_names(questions)
        )),
    }
}

/// Every `KEY.FIELD` that can be answered now.
pub fn open_names(questions: &[Question]) -> String {
    let names: Vec<String> = questions
        .iter()
        .flat_map(|question| match &question.kind {
            QuestionKind::Form(fields) => fields
                .iter()
                .map(|field| format!("{}.{}", question.key, field.name))
                .collect(),
            QuestionKind::Url(_) | QuestionKind::Other(_) => vec![question.key.clone()],
        })
        .collect();
    match names.is_empty() {
        true => "nothing".to_owned(),
        false => text::plain_line(&names.join(", "), NAMES_MAX_CHARS),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::cli::questions::questions;

    fn form(properties: Value, required: &[&str]) -> Value {
        json!({
            "method": "elicitation/create",
            "params": {
                "message": "Well?",
                "requestedSchema": {
                    "type": "object", "properties": properties, "required": required,
                },
            },
        })
    }

    fn open(requests: Value) -> Vec<Question> {
        questions(requests.as_object().unwrap())
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn two() -> Vec<Question> {
        open(json!({
            "delete": form(json!({ "confirm": { "type": "boolean" } }), &["confirm"]),
            "who": form(
                json!({
                    "name": { "type": "string" },
                    "age": { "type": "integer", "default": 30 },
                    "confirm": { "type": "boolean", "default": false },
                }),
                &["name", "age"],
            ),
        }))
    }

    #[test]
    fn words_are_matched_to_the_question_they_answer() {
        let table = [
            (
                &["delete=true"][..],
                json!({ "delete": { "confirm": true } }),
            ),
            (
                &["delete.confirm=false"],
                json!({ "delete": { "confirm": false } }),
            ),
            (
                &["name=42"],
                json!({ "who": { "name": "42", "age": 30, "confirm": false } }),
            ),
            (
                &["who.confirm=true", "name=Ann", "age=31", "delete=true"],
                json!({
                    "who": { "confirm": true, "name": "Ann", "age": 31 },
                    "delete": { "confirm": true },
                }),
            ),
        ];
        for (given, expected) in table {
            let answers = from_words(&two(), &words(given)).unwrap();
            let contents: Map<String, Value> = answers
                .into_iter()
                .map(|(key, mut answer)| (key, answer["content"].take()))
                .collect();
            assert_eq!(Value::Object(contents), expected, "{given:?}");
        }
    }

    #[test]
    fn words_that_fit_no_question_are_refused_with_those_that_do() {
        let error = |given: &[&str]| from_words(&two(), &words(given)).unwrap_err();
        assert_snapshot!(error(&["confirm=true"]), @"several questions ask for `confirm`; say which: delete.confirm, who.age, who.confirm, who.name");
        assert_snapshot!(error(&["color=red"]), @"nothing asks for `color`; open: delete.confirm, who.age, who.confirm, who.name");
        assert_snapshot!(error(&["age=old"]), @"`age` takes a whole number, not `old`");
        assert_snapshot!(error(&["age=1"]), @"`who` needs `name`, too");
    }

    #[test]
    fn yes_confirms_and_takes_defaults() {
        let questions = two();
        assert_eq!(
            yes(&questions[0]).unwrap(),
            json!({ "action": "accept", "content": { "confirm": true } })
        );
        let access = json!({
            "type": "string", "default": "no",
            "oneOf": [{ "const": "once", "title": "Allow" }, { "const": "no", "title": "No" }],
        });
        let grant = open(json!({ "grant": form(json!({ "access": access }), &["access"]) }));
        assert_eq!(
            yes(&grant[0]).unwrap(),
            json!({ "action": "accept", "content": { "access": "no" } }),
            "it grants nothing"
        );
        assert_snapshot!(yes(&questions[1]).unwrap_err(), @"`who` asks for `name`, which has no default");
    }
}
