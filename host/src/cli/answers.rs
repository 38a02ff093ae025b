//! Questions a task asks, and answers made from words or defaults. Pure: no terminal here.

use serde_json::{Map, Value, json};

use super::arguments::typed_for;

/// An open question (`elicitation/create`, or what this client can't answer).
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub key: String,
    pub message: String,
    pub kind: QuestionKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum QuestionKind {
    Form(Vec<Field>),
    Url(String),
    /// The method of a request that is not for a person.
    Other(String),
}

/// One property of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub required: bool,
    pub default: Option<Value>,
    pub kind: FieldKind,
    /// The property's own schema.
    pub schema: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    Text {
        min_length: usize,
        max_length: usize,
        format: Option<String>,
    },
    Number {
        integer: bool,
        minimum: Option<f64>,
        maximum: Option<f64>,
    },
    Boolean,
    /// Values and how they are shown.
    One(Vec<(String, String)>),
    Many {
        options: Vec<(String, String)>,
        min_items: usize,
        max_items: usize,
    },
}

/// Reads the `inputRequests` of a task or a call, in their order.
pub fn questions(requests: &Map<String, Value>) -> Vec<Question> {
    requests
        .iter()
        .map(|(key, request)| question(key, request))
        .collect()
}

fn question(key: &str, request: &Value) -> Question {
    let method = request["method"].as_str().unwrap_or_default();
    let params = &request["params"];
    let kind = match (method, params["mode"].as_str()) {
        ("elicitation/create", Some("url")) => {
            QuestionKind::Url(params["url"].as_str().unwrap_or_default().to_owned())
        }
        ("elicitation/create", _) => QuestionKind::Form(fields(&params["requestedSchema"])),
        _ => QuestionKind::Other(method.to_owned()),
    };
    Question {
        key: key.to_owned(),
        message: params["message"].as_str().unwrap_or_default().to_owned(),
        kind,
    }
}

fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema["properties"].as_object();
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| Field {
            name: name.clone(),
            title: property["title"].as_str().map(str::to_owned),
            description: property["description"].as_str().map(str::to_owned),
            required: required.contains(&name.as_str()),
            default: property.get("default").cloned(),
            kind: field_kind(property),
            schema: property.clone(),
        })
        .collect()
}

fn field_kind(property: &Value) -> FieldKind {
    let count = |name: &str, default: usize| {
        let value = property[name].as_u64();
        value.map_or(default, |value| {
            usize::try_from(value).unwrap_or(usize::MAX)
        })
    };
    match property["type"].as_str() {
        Some("boolean") => FieldKind::Boolean,
        Some(kind @ ("integer" | "number")) => FieldKind::Number {
            integer: kind == "integer",
            minimum: property["minimum"].as_f64(),
            maximum: property["maximum"].as_f64(),
        },
        Some("array") => FieldKind::Many {
            options: options(&property["items"]),
            min_items: count("minItems", 0),
            max_items: count("maxItems", usize::MAX),
        },
        _ => match options(property) {
            options if options.is_empty() => FieldKind::Text {
                min_length: count("minLength", 0),
                max_length: count("maxLength", usize::MAX),
                format: property["format"].as_str().map(str::to_owned),
            },
            options => FieldKind::One(options),
        },
    }
}

/// The choices of an enum in each of the forms MCP has for one.
fn options(schema: &Value) -> Vec<(String, String)> {
    let titled = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    if let Some(titled) = titled {
        let option = |option: &Value| {
            let value = option["const"].as_str()?;
            let title = option["title"].as_str().unwrap_or(value);
            let shown = match option["description"].as_str() {
                Some(description) => format!("{title}: {description}"),
                None => title.to_owned(),
            };
            Some((value.to_owned(), shown))
        };
        return titled.iter().filter_map(option).collect();
    }
    let values = schema["enum"].as_array().into_iter().flatten();
    values
        .filter_map(Value::as_str)
        .enumerate()
        .map(|(index, value)| {
            let title = schema["enumNames"][index].as_str().unwrap_or(value);
            (value.to_owned(), title.to_owned())
        })
        .collect()
}

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
                "`{}` asks for {method}, which this client can't do",
                question.key
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
                    question.key, field.name
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
        let Some((name, text)) = word.split_once('=') else {
            return Err(format!("`{word}` is not KEY=VALUE"));
        };
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
                        return Err(format!("`{key}` needs `{}`, too", field.name));
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
        false => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

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
    fn every_form_of_an_enum_is_a_choice() {
        let one = |schema: Value| field_kind(&schema);
        let options = vec![("#f00".to_owned(), "Red".to_owned())];
        let titled = json!([{ "const": "#f00", "title": "Red" }]);
        let table = [
            one(json!({ "type": "string", "oneOf": titled })),
            one(json!({ "type": "string", "enum": ["#f00"], "enumNames": ["Red"] })),
        ];
        for kind in table {
            assert_eq!(kind, FieldKind::One(options.clone()));
        }
        let many = one(json!({ "type": "array", "items": { "anyOf": titled }, "minItems": 1 }));
        assert_eq!(
            many,
            FieldKind::Many {
                options,
                min_items: 1,
                max_items: usize::MAX
            }
        );
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

    #[test]
    fn a_page_and_a_request_for_no_person_are_told_apart() {
        let questions = open(json!({
            "page": {
                "method": "elicitation/create",
                "params": { "mode": "url", "message": "Log in", "url": "https://a.example/" },
            },
            "roots": { "method": "roots/list" },
        }));
        assert_eq!(
            questions[0].kind,
            QuestionKind::Url("https://a.example/".to_owned())
        );
        assert_eq!(
            questions[1].kind,
            QuestionKind::Other("roots/list".to_owned())
        );
    }
}
