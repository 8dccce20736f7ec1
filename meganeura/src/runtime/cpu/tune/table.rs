//! Choices by what they depend on.

use std::collections::BTreeMap;

use super::Choice;

/// Files of another version are of no use: it counts up when keys or choices change, and the rules
/// that choices were better than.
const VERSION: &str = "meganeura choices 3";

/// What was found for one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::runtime::cpu) struct Table {
    choices: BTreeMap<String, Choice>,
}

impl Table {
    /// The choice for a key.
    pub fn get(&self, key: &str) -> Option<Choice> {
        self.choices.get(key).copied()
    }

    /// Puts a choice in the rules' place, or gives the place back to them.
    pub fn set(&mut self, key: &str, choice: Option<Choice>) {
        match choice {
            Some(choice) => self.choices.insert(key.to_owned(), choice),
            None => self.choices.remove(key),
        };
    }

    /// As a file for a device.
    pub fn to_text(&self, device: &str) -> String {
        let mut text = format!("{VERSION}\n{device}\n");
        for (key, choice) in &self.choices {
            text.push_str(&format!("{key} = {choice}\n"));
        }
        text
    }

    /// From a file for a device, with a note on what is wrong with it.
    pub fn from_text(text: &str, device: &str) -> (Table, Option<String>) {
        let mut lines = text.lines();
        if lines.next() != Some(VERSION) {
            return (Table::default(), Some("is of another version".to_owned()));
        }
        if lines.next() != Some(device) {
            return (Table::default(), Some("is for another device".to_owned()));
        }
        let (mut table, mut wrong) = (Table::default(), 0);
        for line in lines {
            let entry = line.split_once(" = ");
            match entry.and_then(|(key, choice)| Some((key, choice.parse().ok()?))) {
                Some((key, choice)) => table.set(key, Some(choice)),
                None => wrong += 1,
            }
        }
        let note = (wrong > 0).then(|| format!("has {wrong} lines that are no choices"));
        (table, note)
    }
}
