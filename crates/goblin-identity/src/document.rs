//! A JSON object that keeps its members in order and the ones it doesn't know as they were written. It must never know
//! which members a file has.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

/// The members of an object, in the file's order, each value as its JSON text.
#[derive(Clone, Default)]
pub(crate) struct Document {
    members: Vec<(String, Zeroizing<String>)>,
}

impl Document {
    /// Reads a whole text. The error says where the text is broken, never what stands there.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => "it holds no JSON object".to_owned(),
            serde_json::error::Category::Eof if text.trim().is_empty() => "it is empty".to_owned(),
            serde_json::error::Category::Eof => "its JSON text is cut off".to_owned(),
            _ => format!("it is no JSON text (line {}, column {})", error.line(), error.column()),
        })
    }

    fn raw(&self, name: &str) -> Option<&str> {
        self.members
            .iter()
            .find(|(member, _)| member == name)
            .map(|(_, value)| value.as_str())
    }

    /// Checks that `version` is 1, the only one there has been.
    pub(crate) fn require_version_1(&self) -> Result<(), String> {
        match self.raw("version") {
            Some("1") => Ok(()),
            Some(_) => Err("its version is not 1; a newer release may have written it".to_owned()),
            None => Err("version is missing".to_owned()),
        }
    }

    /// A member that must be a text with something in it.
    pub(crate) fn text(&self, name: &str) -> Result<Zeroizing<String>, String> {
        self.optional_text(name)?.ok_or_else(|| format!("{name} is missing"))
    }

    /// A member that is a text with something in it, or absent or null.
    pub(crate) fn optional_text(&self, name: &str) -> Result<Option<Zeroizing<String>>, String> {
        let raw = match self.raw(name) {
            None | Some("null") => return Ok(None),
            Some(raw) => raw,
        };
        let text: Zeroizing<String> = serde_json::from_str(raw)
            .map(Zeroizing::new)
            .map_err(|_| format!("{name} is no text"))?;
        if text.trim().is_empty() {
            return Err(format!("{name} is empty"));
        }
        Ok(Some(text))
    }

    /// Sets a member in its place, or adds it at the end.
    pub(crate) fn set_text(&mut self, name: &str, value: &str) {
        self.set(name, Zeroizing::new(serde_json::Value::from(value).to_string()));
    }

    pub(crate) fn set_version_1(&mut self) {
        self.set("version", Zeroizing::new("1".to_owned()));
    }

    fn set(&mut self, name: &str, value: Zeroizing<String>) {
        match self.members.iter_mut().find(|(member, _)| member == name) {
            Some((_, old)) => *old = value,
            None => self.members.push((name.to_owned(), value)),
        }
    }

    /// Removes a member; `false` when there was none.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.members.len();
        self.members.retain(|(member, _)| member != name);
        self.members.len() != before
    }

    /// The object as a file's text: one member a line, a final newline.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let size: usize = self
            .members
            .iter()
            .map(|(name, value)| name.len() * 6 + value.len() + 8)
            .sum();
        // Room for all of it at once: a growing text would leave copies of a secret behind.
        let mut text = Zeroizing::new(String::with_capacity(size + 8));
        text.push_str("{\n");
        for (index, (name, value)) in self.members.iter().enumerate() {
            if index > 0 {
                text.push_str(",\n");
            }
            text.push_str("  ");
            text.push_str(&serde_json::Value::from(name.as_str()).to_string());
            text.push_str(": ");
            text.push_str(value);
        }
        text.push_str("\n}\n");
        text
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Document;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut document = Document::default();
        while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
            // Of doubled members the last counts, as in JavaScript.
            document.set(&name, Zeroizing::new(String::from(Box::<str>::from(value))));
        }
        Ok(document)
    }
}
