//! What a caller says, and what of it is wrong before any file is opened.

use longshore_plugin::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the groups of the chart and the text are limited when the caller says nothing.
const TOP_DEFAULT: u16 = 10;

/// The arguments of `report-export`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The CSV file, as a path inside the input directory. Its first record is the header.
    #[schemars(length(min = 1, max = 1024))]
    pub file: String,
    /// The columns whose values make the groups. Of several columns with one name, `name#2` is the
    /// second; `#3` is the third column whatever its name.
    #[schemars(length(min = 1, max = 4))]
    pub group_by: Vec<String>,
    /// What to compute for each group besides its number of rows.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub measures: Vec<Measure>,
    /// The name of the files to write, without extension: letters, digits, `.`, `_` and `-`.
    #[schemars(
        length(min = 1, max = 100),
        regex(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]*$")
    )]
    pub output: String,
    /// What the chart shows.
    #[serde(default)]
    pub chart: Chart,
    /// What stands between two fields.
    #[serde(default)]
    pub delimiter: Delimiter,
    /// What to do with rows that have more or fewer fields than the header. Asked when such a row
    /// is met, unless it is said here.
    #[serde(default)]
    pub uneven_rows: Option<UnevenRows>,
    /// What to do with a measured value that is not empty and no number.
    #[serde(default)]
    pub not_numbers: NotNumbers,
    /// Write over files of an earlier report without asking.
    #[serde(default)]
    pub overwrite: bool,
    /// Go on where a cancelled call with the same arguments stopped, if it left a partial file and
    /// the input is unchanged.
    #[serde(default = "yes")]
    pub continue_partial: bool,
}

fn yes() -> bool {
    true
}

/// A column of numbers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The column, named as in `group_by`.
    pub column: String,
    /// Empty fields are left out of all of them.
    #[serde(default = "sum")]
    #[schemars(length(min = 1, max = 5))]
    pub functions: Vec<Function>,
}

fn sum() -> Vec<Function> {
    vec![Function::Sum]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    Mean,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Min => "min",
            Function::Max => "max",
            Function::Mean => "mean",
        }
    }

    /// What the column of this function is called in the report.
    pub fn of(self, column: &str) -> String {
        format!("{column}_{}", self.name())
    }
}

/// What the chart shows.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// A column of the report, such as `amount_sum`, or `rows`. The first measure if not given.
    #[serde(default)]
    pub measure: Option<String>,
    /// How many groups, the largest first.
    #[serde(default = "top")]
    #[schemars(range(min = 1, max = 50))]
    pub top: u16,
}

fn top() -> u16 {
    TOP_DEFAULT
}

impl Default for Chart {
    fn default() -> Self {
        Chart {
            measure: None,
            top: TOP_DEFAULT,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Delimiter {
    #[default]
    #[serde(rename = ",")]
    Comma,
    #[serde(rename = ";")]
    Semicolon,
    #[serde(rename = "tab")]
    Tab,
    #[serde(rename = "|")]
    Bar,
}

impl Delimiter {
    pub fn byte(self) -> u8 {
        match self {
            Delimiter::Comma => b',',
            Delimiter::Semicolon => b';',
            Delimiter::Tab => b'\t',
            Delimiter::Bar => b'|',
        }
    }
}

/// What happens to rows with a wrong number of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnevenRows {
    /// Leave them out and count them
    Skip,
    /// Take missing fields as empty and leave out surplus ones
    Fit,
    /// Stop without a report
    Stop,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotNumbers {
    /// Stop at the first one
    #[default]
    Stop,
    /// Leave them out and count them
    Skip,
}

impl Arguments {
    /// Checks what the schema cannot say, and again what keeps files where they belong.
    pub fn check(&self) -> Result<()> {
        let is_inside = !self.file.starts_with('/')
            && !self.file.contains('\\')
            && self
                .file
                .split('/')
                .all(|part| !matches!(part, "" | "." | ".."));
        if !is_inside {
            return Err(Error::invalid_arguments(format!(
                "`file` is {:?}: give a path inside the input directory, such as \"2026/sales.csv\"",
                self.file
            )));
        }
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !self.output.bytes().all(is_safe)
            || self.output.len() > 100
            || self.output.starts_with(['.', '-'])
            || self.output.is_empty()
        {
            return Err(Error::invalid_arguments(format!(
                "`output` is {:?}: give a plain name of letters, digits, `.`, `_` and `-`, without extension",
                self.output
            )));
        }
        let names = self.value_names();
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(Error::invalid_arguments(format!(
                    "`measures` asks for {name:?} twice: ask once"
                )));
            }
        }
        match &self.chart.measure {
            Some(chosen) if !names.contains(chosen) => Err(Error::invalid_arguments(format!(
                "`chart.measure` is {chosen:?}: choose one of {}",
                names.join(", ")
            ))),
            _ => Ok(()),
        }
    }

    /// The names of the report's columns after those of the groups.
    pub fn value_names(&self) -> Vec<String> {
        let measures = self.measures.iter().flat_map(|measure| {
            let functions = measure.functions.iter();
            functions.map(|function| function.of(&measure.column))
        });
        std::iter::once("rows".to_owned()).chain(measures).collect()
    }

    /// What partial results depend on. Two calls with one fingerprint can share a partial file:
    /// functions, chart and the rest only matter at the end.
    pub fn fingerprint(&self) -> String {
        let columns: Vec<&str> = self.measures.iter().map(|it| it.column.as_str()).collect();
        format!(
            "{:?}",
            (
                &self.file,
                &self.group_by,
                columns,
                self.delimiter,
                self.uneven_rows,
                self.not_numbers
            )
        )
    }
}
