//! Objects of data that clients send: arguments, answers. A key that stands twice is refused, since
//! a gateway in front may have judged the one that the host would drop.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::error::shortened;
use super::json::parse;

/// Reads an object and all that is in it; `at` says in an error where it stands.
pub fn read(raw: &RawValue, at: &str) -> Result<Map<String, Value>, String> {
    match parse::<Once>(raw, at)?.0 {
        Value::Object(members) => Ok(members),
        _ => Err(format!("{at} has to be an object")),
    }
}

/// A value in which no object has a key twice. How deep it is was bounded with the message.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Once, D::Error> {
        deserializer.deserialize_any(OnceVisitor).map(Once)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let number = Number::from_f64(number);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Once(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if all.contains_key(&key) {
                let key = shortened(&key);
                return Err(A::Error::custom(format!("`{key}` stands there twice")));
            }
            let Once(value) = members.next_value()?;
            all.insert(key, value);
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outcome(json: &str) -> String {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        match read(raw, "params.arguments") {
            Ok(members) => Value::Object(members).to_string(),
            Err(words) => words,
        }
    }

    #[test]
    fn what_is_wrong_is_told_and_not_called_something_else() {
        let json = [
            r#"{"a": {"b": [1, -2, 0.5, null, true, "\u00e9"]}}"#,
            "[1]",
            "null",
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": 1, "\u0061": 2}"#,
            r#"{"a": [{"b": {"c": 1, "d": 2, "c": 1}}]}"#,
            r#"{"a": 1e999}"#,
            r#"{"a": -1e999}"#,
            r#"{"a": 18446744073709551616}"#,
        ];
        let told: Vec<String> = json.into_iter().map(outcome).collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        {"a":{"b":[1,-2,0.5,null,true,"é"]}}
        params.arguments has to be an object
        params.arguments has to be an object
        params.arguments: `a` stands there twice at line 1 column 12
        params.arguments: `a` stands there twice at line 1 column 17
        params.arguments: `c` stands there twice at line 1 column 33
        params.arguments: number out of range at line 1 column 11
        params.arguments: number out of range at line 1 column 12
        {"a":1.8446744073709552e+19}
        "#);
    }

    proptest! {
        /// What is taken is what every other reader of JSON finds there.
        #[test]
        fn an_object_is_read_as_by_everyone(members in prop::collection::vec(("[ab\"\\\\é]{0,2}", any::<f64>()), 0..4)) {
            let texts: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(&**key), Value::from(*value)))
                .collect();
            let json = format!("{{{}}}", texts.join(","));
            let everyone: Map<String, Value> = serde_json::from_str(&json).unwrap();
            let raw: &RawValue = serde_json::from_str(&json).unwrap();
            match read(raw, "it") {
                Ok(read) => prop_assert_eq!(read, everyone),
                Err(_) => prop_assert!(everyone.len() < members.len(), "{}", json),
            }
        }
    }
}
