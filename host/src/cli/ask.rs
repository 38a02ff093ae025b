//! Asks a person at the terminal. Every question can be declined or dismissed; none asks for a
//! secret (MCP forbids it of forms).

mod line;

use std::io;
use std::time::Duration;

use dialoguer::console::{Key, Term};
use dialoguer::theme::ColorfulTheme;
use dialoguer::{MultiSelect, Select};
use serde_json::{Map, Value};

use super::asked::bounds;
use super::print::note;
use super::questions::{Field, FieldKind, Question, QuestionKind};
use super::stop::Interrupts;
use super::{answers, print, terminal, text};
use line::ask_line;

/// Of a page's address that is to be opened, which is no use when it is cut.
const URL_MAX_CHARS: usize = 8_000;
/// A signal that a prompt has raised arrives in less.
const RAISED_WITHIN: Duration = Duration::from_secs(1);

/// What a person did with a question.
pub enum Asked {
    Answered(Value),
    /// Ctrl-C.
    Interrupted,
}

/// Whether there is a person to ask.
pub fn is_interactive() -> bool {
    use std::io::IsTerminal;
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks one question and waits for the person.
pub async fn ask(question: Question, interrupts: &mut Interrupts) -> io::Result<Asked> {
    let asked = on_terminal(interrupts, move || ask_blocking(&question)).await?;
    Ok(asked.map_or(Asked::Interrupted, Asked::Answered))
}

/// Offers `choices`; None when the person interrupts or escapes.
pub async fn choose(
    prompt: &'static str,
    choices: &'static [&'static str],
    interrupts: &mut Interrupts,
) -> io::Result<Option<usize>> {
    let chosen = on_terminal(interrupts, move || select(prompt, choices, 0)).await?;
    Ok(chosen.flatten())
}

/// None when the person interrupts.
async fn on_terminal<T: Send + 'static>(
    interrupts: &mut Interrupts,
    prompt: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<Option<T>> {
    interrupts.forget();
    let result = tokio::task::spawn_blocking(|| {
        terminal::forget_typed_ahead();
        prompt()
    })
    .await;
    // A prompt that was interrupted leaves the cursor hidden.
    let _ = Term::stderr().show_cursor();
    match result.map_err(io::Error::other)? {
        Ok(answer) => {
            interrupts.forget();
            Ok(Some(answer))
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            // It also raised the signal, which was meant for the prompt and for nothing after it.
            let _ = tokio::time::timeout(RAISED_WITHIN, interrupts.next()).await;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn ask_blocking(question: &Question) -> io::Result<Value> {
    note!(
        "{} {}",
        text::yellow("?"),
        text::bold(&text::plain_lines(&question.message, 4_000, "  "))
    );
    match &question.kind {
        QuestionKind::Url(url) => visit(url),
        QuestionKind::Form(fields) => match fields.as_slice() {
            [] => choose_action("Go ahead?", "Yes").map(|action| action.finish(Map::new())),
            [field] => match &field.kind {
                FieldKind::Boolean => confirm(field),
                FieldKind::One(options) if field.required => pick(field, options),
                _ => fill(std::slice::from_ref(field)),
            },
            fields => fill(fields),
        },
        QuestionKind::Other(method) => {
            let method = text::name(method);
            note!("  it asks for {method}, which this client can't do; declining");
            Ok(answers::decline())
        }
    }
}

#[derive(Clone, Copy)]
enum Action {
    Send,
    Again,
    Decline,
    Dismiss,
}

impl Action {
    fn finish(self, content: Map<String, Value>) -> Value {
        match self {
            Action::Send | Action::Again => answers::accept(Some(content)),
            Action::Decline => answers::decline(),
            Action::Dismiss => answers::dismiss(),
        }
    }
}

const DECLINE: &str = "Decline to answer";
const DISMISS: &str = "Dismiss the question";

fn visit(url: &str) -> io::Result<Value> {
    note!("  open this page: {}", text::plain_line(url, URL_MAX_CHARS));
    Ok(
        match choose_action("Then", "Go on, the page is done or under way")? {
            Action::Send | Action::Again => answers::accept(None),
            other => other.finish(Map::new()),
        },
    )
}

fn choose_action(prompt: &str, send: &str) -> io::Result<Action> {
    let chosen = select(prompt, &[send, DECLINE, DISMISS], 0)?;
    Ok(match chosen {
        Some(0) => Action::Send,
        Some(1) => Action::Decline,
        _ => Action::Dismiss,
    })
}

/// A single yes or no needs no more than one key.
///
/// What may have an effect outside is not agreed to by a careless return: unless the tool says
/// otherwise, that is a no.
fn confirm(field: &Field) -> io::Result<Value> {
    let default = field.default == Some(Value::Bool(true));
    let keys = match default {
        true => "[Y/n]",
        false => "[y/N]",
    };
    let hint = text::dim(&format!("{keys}  d declines, Esc dismisses"));
    print::write_note(&format!("  {} {hint} ", label(field)));
    let answered = |yes: bool| {
        let content = Map::from_iter([(field.name.clone(), Value::Bool(yes))]);
        answers::accept(Some(content))
    };
    let (word, answer) = loop {
        match Term::stderr().read_key()? {
            Key::Char('y' | 'Y') => break ("yes", answered(true)),
            Key::Char('n' | 'N') => break ("no", answered(false)),
            Key::Enter if default => break ("yes", answered(true)),
            Key::Enter => break ("no", answered(false)),
            Key::Char('d' | 'D') => break ("declined", answers::decline()),
            Key::Escape => break ("dismissed", answers::dismiss()),
            _ => {}
        }
    };
    note!("{}", text::bold(word));
    Ok(answer)
}

/// Nor does a single choice.
fn pick(field: &Field, options: &[(String, String)]) -> io::Result<Value> {
    let titles = titles(options);
    let mut shown: Vec<&str> = titles.iter().map(String::as_str).collect();
    shown.extend([DECLINE, DISMISS]);
    let default = default_choice(field, options);
    Ok(match select(&label(field), &shown, default)? {
        Some(index) if index < options.len() => {
            let value = Value::String(options[index].0.clone());
            answers::accept(Some(Map::from_iter([(field.name.clone(), value)])))
        }
        Some(index) if index == options.len() => answers::decline(),
        _ => answers::dismiss(),
    })
}

fn default_choice(field: &Field, options: &[(String, String)]) -> usize {
    let default = options
        .iter()
        .position(|(value, _)| field.default.as_ref().is_some_and(|d| d == value));
    default.unwrap_or(0)
}

fn fill(fields: &[Field]) -> io::Result<Value> {
    loop {
        let mut content = Map::new();
        for field in fields {
            if let Some(value) = ask_field(field)? {
                content.insert(field.name.clone(), value);
            }
        }
        let chosen = select(
            "Send this?",
            &["Send", "Fill it in again", DECLINE, DISMISS],
            0,
        )?;
        let action = match chosen {
            Some(0) => Action::Send,
            Some(1) => Action::Again,
            Some(2) => Action::Decline,
            _ => Action::Dismiss,
        };
        if !matches!(action, Action::Again) {
            return Ok(action.finish(content));
        }
    }
}

/// None leaves an optional field out.
fn ask_field(field: &Field) -> io::Result<Option<Value>> {
    let prompt = label(field);
    match &field.kind {
        FieldKind::Boolean => {
            let default = usize::from(field.default != Some(Value::Bool(true)));
            let chosen = choose_option(&prompt, &["Yes", "No"], default, field.required)?;
            Ok(chosen.map(|index| Value::Bool(index == 0)))
        }
        FieldKind::One(options) => {
            let default = default_choice(field, options);
            let titles = titles(options);
            let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
            let chosen = choose_option(&prompt, &titles, default, field.required)?;
            Ok(chosen.map(|index| Value::String(options[index].0.clone())))
        }
        FieldKind::Many {
            options,
            min_items,
            max_items,
        } => choose_many(&prompt, field, options, *min_items, *max_items).map(Some),
        FieldKind::Text { .. } | FieldKind::Number { .. } => ask_line(&prompt, field),
    }
}

fn choose_option(
    prompt: &str,
    options: &[&str],
    default: usize,
    required: bool,
) -> io::Result<Option<usize>> {
    let mut shown = options.to_vec();
    if !required {
        shown.push("(leave out)");
    }
    let chosen = select(prompt, &shown, default)?;
    Ok(chosen
        .filter(|index| *index < options.len())
        .or(required.then_some(default)))
}

fn choose_many(
    prompt: &str,
    field: &Field,
    options: &[(String, String)],
    min_items: usize,
    max_items: usize,
) -> io::Result<Value> {
    let preset = field.default.as_ref().and_then(Value::as_array);
    let is_preset = |value: &str| preset.is_some_and(|preset| preset.iter().any(|p| p == value));
    let checked: Vec<bool> = options.iter().map(|(value, _)| is_preset(value)).collect();
    loop {
        let chosen = MultiSelect::with_theme(&ColorfulTheme::default())
            .with_prompt(format!("{prompt} (space marks, enter ends)"))
            .items(titles(options))
            .defaults(&checked)
            .interact()
            .map_err(to_io)?;
        if (min_items..=max_items).contains(&chosen.len()) {
            let values = chosen.into_iter().map(|index| options[index].0.clone());
            return Ok(values.collect());
        }
        note!(
            "  mark {}",
            bounds(
                Some(min_items),
                Some(max_items).filter(|max| *max < usize::MAX)
            )
        );
    }
}

fn label(field: &Field) -> String {
    let name = field.title.as_deref().unwrap_or(&field.name);
    match &field.description {
        Some(description) => text::plain_line(&format!("{name} ({description})"), 160),
        None => text::plain_line(name, 160),
    }
}

fn titles(options: &[(String, String)]) -> Vec<String> {
    options
        .iter()
        .map(|(_, title)| text::plain_line(title, 120))
        .collect()
}

/// None when the person escapes.
fn select(prompt: &str, items: &[&str], default: usize) -> io::Result<Option<usize>> {
    Select::with_theme(&ColorfulTheme::default())
        .with_prompt(prompt)
        .items(items)
        .default(default)
        .interact_opt()
        .map_err(to_io)
}

fn to_io(error: dialoguer::Error) -> io::Error {
    let dialoguer::Error::IO(error) = error;
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::questions::form_field;

    #[test]
    fn the_cursor_stands_on_the_default() {
        let options = json!([{ "const": "once" }, { "const": "no" }]);
        let access = form_field(json!({ "type": "string", "oneOf": options, "default": "no" }));
        let FieldKind::One(options) = &access.kind else {
            panic!("{access:?} is no choice");
        };
        assert_eq!(default_choice(&access, options), 1);
    }
}
