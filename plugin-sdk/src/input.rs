//! Questions and their answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bindings::longshore::plugin::types;
use crate::error::{Error, Result};
use crate::schema;

/// A person's response to a form or a page. Decline and dismiss are answers, not failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response<T> {
    Accept(T),
    Decline,
    /// Closed without choosing.
    Dismiss,
}

impl<T> Response<T> {
    /// What was accepted, if it was.
    pub fn accepted(self) -> Option<T> {
        match self {
            Response::Accept(value) => Some(value),
            Response::Decline | Response::Dismiss => None,
        }
    }
}

/// The form behind [`Context::confirm`](crate::Context::confirm).
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) struct Confirmation {
    /// Yes, go on.
    pub confirm: bool,
}

/// One question for [`Context::ask_all`](crate::Context::ask_all).
#[derive(Clone, Debug)]
pub struct InputRequest {
    key: String,
    /// The error is a form that MCP cannot show; it is told when the question is asked.
    ask: Result<types::Ask>,
}

impl InputRequest {
    /// A form with the fields of `F`; read the answer with [`Answers::form`].
    pub fn form<F: JsonSchema>(key: impl Into<String>, message: impl Into<String>) -> InputRequest {
        InputRequest {
            key: key.into(),
            ask: schema::form::<F>().map(|schema| form(message, &schema)),
        }
    }

    /// A form whose schema is written by hand.
    pub fn form_of(
        key: impl Into<String>,
        message: impl Into<String>,
        schema: &Value,
    ) -> InputRequest {
        InputRequest {
            key: key.into(),
            ask: Ok(form(message, schema)),
        }
    }

    /// A yes or no; read the answer with [`Answers::confirmed`].
    pub fn confirm(key: impl Into<String>, message: impl Into<String>) -> InputRequest {
        InputRequest::form::<Confirmation>(key, message)
    }

    /// A page to visit; read the answer with [`Answers::url`].
    pub fn url(
        key: impl Into<String>,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> InputRequest {
        InputRequest {
            key: key.into(),
            ask: Ok(types::Ask::Url(types::UrlVisit {
                message: message.into(),
                url: url.into(),
            })),
        }
    }

    /// Something for the client's model to write; read it with [`Answers::sampled`].
    pub fn sampling(key: impl Into<String>, sampling: Sampling) -> InputRequest {
        InputRequest {
            key: key.into(),
            ask: Ok(types::Ask::Sampling(sampling.into_params().to_string())),
        }
    }

    /// The client's directories; read them with [`Answers::roots`].
    pub fn roots(key: impl Into<String>) -> InputRequest {
        InputRequest {
            key: key.into(),
            ask: Ok(types::Ask::Roots),
        }
    }

    pub(crate) fn into_wire(self) -> Result<types::InputRequest> {
        Ok(types::InputRequest {
            key: self.key,
            ask: self.ask?,
        })
    }
}

fn form(message: impl Into<String>, schema: &Value) -> types::Ask {
    types::Ask::Form(types::Form {
        message: message.into(),
        schema: schema.to_string(),
    })
}

/// The answers to the questions of one [`Context::ask_all`](crate::Context::ask_all), by key.
#[derive(Clone, Debug)]
pub struct Answers {
    by_key: BTreeMap<String, types::Answer>,
}

impl Answers {
    pub(crate) fn new(answers: impl Iterator<Item = (String, types::Answer)>) -> Answers {
        Answers {
            by_key: answers.collect(),
        }
    }

    /// The response to a form.
    pub fn form<F: DeserializeOwned>(&self, key: &str) -> Result<Response<F>> {
        self.response(key, |content| {
            let content = content.unwrap_or("{}");
            serde_json::from_str(content)
                .map_err(|error| unexpected(key, &format!("does not fit the form: {error}")))
        })
    }

    /// Whether a confirmation was a yes.
    pub fn confirmed(&self, key: &str) -> Result<bool> {
        let answer = self.form::<Confirmation>(key)?;
        Ok(matches!(
            answer,
            Response::Accept(Confirmation { confirm: true })
        ))
    }

    /// The response to a page.
    pub fn url(&self, key: &str) -> Result<Response<()>> {
        self.response(key, |_| Ok(()))
    }

    /// What the client's model wrote.
    pub fn sampled(&self, key: &str) -> Result<Sampled> {
        self.value(key)
    }

    /// The client's directories.
    pub fn roots(&self, key: &str) -> Result<Vec<Root>> {
        Ok(self.value::<Roots>(key)?.roots)
    }

    fn response<T>(
        &self,
        key: &str,
        read: impl FnOnce(Option<&str>) -> Result<T>,
    ) -> Result<Response<T>> {
        match self.get(key)? {
            types::Answer::Accept(content) => Ok(Response::Accept(read(content.as_deref())?)),
            types::Answer::Decline => Ok(Response::Decline),
            types::Answer::Dismiss => Ok(Response::Dismiss),
            types::Answer::Value(_) => Err(unexpected(key, "is not a person's response")),
        }
    }

    fn value<T: DeserializeOwned>(&self, key: &str) -> Result<T> {
        match self.get(key)? {
            types::Answer::Value(json) => serde_json::from_str(json)
                .map_err(|error| unexpected(key, &format!("cannot be read: {error}"))),
            types::Answer::Decline | types::Answer::Dismiss => Err(Error::failed(format!(
                "the client refused the request `{key}`"
            ))),
            types::Answer::Accept(_) => Err(unexpected(key, "is a person's response")),
        }
    }

    fn get(&self, key: &str) -> Result<&types::Answer> {
        self.by_key
            .get(key)
            .ok_or_else(|| Error::defect(format!("nothing was asked under the key `{key}`")))
    }
}

fn unexpected(key: &str, what: &str) -> Error {
    Error::defect(format!("the answer to `{key}` {what}"))
}

/// A `sampling/createMessage` request.
#[derive(Clone, Debug)]
pub struct Sampling {
    params: Value,
}

impl Sampling {
    /// Asks the model to answer `prompt` in at most `tokens_max` tokens.
    pub fn new(prompt: impl Into<String>, tokens_max: u32) -> Sampling {
        let prompt: String = prompt.into();
        Sampling {
            params: json!({
                "messages": [
                    { "role": "user", "content": { "type": "text", "text": prompt } }
                ],
                "maxTokens": tokens_max,
            }),
        }
    }

    /// A request written by hand: the parameters of `sampling/createMessage`.
    pub fn of(params: Value) -> Sampling {
        Sampling { params }
    }

    pub fn system(mut self, prompt: impl Into<String>) -> Sampling {
        self.params["systemPrompt"] = Value::String(prompt.into());
        self
    }

    fn into_params(self) -> Value {
        self.params
    }
}

/// What a model wrote.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampled {
    pub role: String,
    /// One content block or several, as MCP has them.
    pub content: Value,
    #[serde(default)]
    pub model: String,
    #[serde(default)]
    pub stop_reason: Option<String>,
}

impl Sampled {
    /// The text blocks, joined by newlines.
    pub fn text(&self) -> String {
        let blocks = match &self.content {
            Value::Array(blocks) => blocks.as_slice(),
            block => std::slice::from_ref(block),
        };
        let texts: Vec<&str> = blocks
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect();
        texts.join("\n")
    }
}

/// A directory the client works in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Root {
    /// A `file:` URI.
    pub uri: String,
    #[serde(default)]
    pub name: Option<String>,
}

#[derive(Deserialize)]
struct Roots {
    roots: Vec<Root>,
}
