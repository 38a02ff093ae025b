//! Finds the columns that the arguments name in the header of a file.
//!
//! A name is matched exactly first. `name#2` is the second of several columns with one name, and
//! `#3` is the third column whatever its name, so that every column of any header can be named.

use thiserror::Error;

/// How many columns an error lists before it only counts the rest.
const LISTED_MAX: usize = 60;

/// The column names of a file, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    names: Vec<String>,
}

/// Why a name means no column. The texts list the columns there are.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum ColumnError {
    #[error("the file has no column {name:?}; its columns are: {columns}")]
    Unknown { name: String, columns: String },
    #[error(
        "{count} columns are named {name:?}: write \"{name}#1\" to \"{name}#{count}\" to say which; the columns are: {columns}"
    )]
    Ambiguous {
        name: String,
        count: usize,
        columns: String,
    },
}

impl Header {
    /// Bytes that are not UTF-8 are shown as U+FFFD, and such a column is named by its number.
    pub fn new<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Self {
        Header {
            names: fields
                .map(|field| String::from_utf8_lossy(field).into_owned())
                .collect(),
        }
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The index of the column that `name` means.
    pub fn find(&self, name: &str) -> Result<usize, ColumnError> {
        let mut same = self.positions(name);
        match (same.next(), same.count()) {
            (Some(index), 0) => Ok(index),
            (Some(_), more) => Err(ColumnError::Ambiguous {
                name: name.to_owned(),
                count: more + 1,
                columns: self.listed(),
            }),
            (None, _) => self
                .find_numbered(name)
                .ok_or_else(|| ColumnError::Unknown {
                    name: name.to_owned(),
                    columns: self.listed(),
                }),
        }
    }

    fn find_numbered(&self, name: &str) -> Option<usize> {
        let (name, number) = name.rsplit_once('#')?;
        let skipped = number.parse::<usize>().ok()?.checked_sub(1)?;
        match name {
            "" => (skipped < self.names.len()).then_some(skipped),
            _ => self.positions(name).nth(skipped),
        }
    }

    fn positions<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        (0..self.names.len()).filter(move |&index| self.names[index] == name)
    }

    /// The columns as a person can name them.
    pub fn listed(&self) -> String {
        let mut listed: Vec<String> = (0..self.names.len().min(LISTED_MAX))
            .map(|index| {
                let name = &self.names[index];
                let before = self.names[..index]
                    .iter()
                    .filter(|other| *other == name)
                    .count();
                match (name.as_str(), self.positions(name).count()) {
                    ("", _) => format!("\"#{}\"", index + 1),
                    (_, 1) => format!("{name:?}"),
                    _ => format!("\"{name}#{}\"", before + 1),
                }
            })
            .collect();
        if self.names.len() > LISTED_MAX {
            listed.push(format!("and {} more", self.names.len() - LISTED_MAX));
        }
        listed.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> Header {
        Header::new(names.iter().map(|name| name.as_bytes()))
    }

    #[test]
    fn every_column_can_be_named() {
        let header = header(&["id", "amount", "", "amount", "a#1"]);
        for (name, index) in [
            ("id", 0),
            ("id#1", 0),
            ("amount#1", 1),
            ("amount#2", 3),
            ("#3", 2),
            ("#5", 4),
            ("", 2),
            ("a#1", 4),
        ] {
            assert_eq!(header.find(name), Ok(index), "{name:?}");
        }
    }

    #[test]
    fn a_wrong_name_lists_the_columns_there_are() {
        let header = header(&["id", "amount", "", "amount"]);
        let columns = r##""id", "amount#1", "#3", "amount#2""##;
        for name in ["Amount", "amount#3", "#0", "#9", "id#x"] {
            let error = header.find(name).unwrap_err();
            assert!(error.to_string().ends_with(columns), "{error}");
        }
        let error = header.find("amount").unwrap_err();
        assert!(matches!(error, ColumnError::Ambiguous { count: 2, .. }));
    }

    #[test]
    fn a_very_wide_header_is_listed_in_part() {
        let names: Vec<String> = (0..1000).map(|index| format!("c{index}")).collect();
        let header = Header::new(names.iter().map(|name| name.as_bytes()));
        assert!(header.listed().ends_with("\"c59\", and 940 more"));
    }
}
