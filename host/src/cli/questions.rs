//! Questions a task asks, read into types. Pure.

use serde_json::{Map, Value};

use super::arguments::required;

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
    let required = required(schema);
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

/// A form's only field, required, of this schema.
#[cfg(test)]
pub fn form_field(schema: Value) -> Field {
    let form = serde_json::json!({ "properties": { "f": schema }, "required": ["f"] });
    fields(&form).remove(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn a_page_and_a_request_for_no_person_are_told_apart() {
        let requests = json!({
            "page": {
                "method": "elicitation/create",
                "params": { "mode": "url", "message": "Log in", "url": "https://a.example/" },
            },
            "roots": { "method": "roots/list" },
        });
        let questions = questions(requests.as_object().unwrap());
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
