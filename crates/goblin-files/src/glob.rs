//! The glob dialect of `files_find`, matched against the whole relative path, case-sensitively: `*` and `?` stay
//! within a component, `**` crosses, `**/` also matches nothing, every other character is literal.
//!
//! A set of states moves along the path, so that the time is the product of the two lengths at worst: there is
//! no backtracking. It must never know a file.

use crate::check_cancelled;
use crate::failure::Failure;
use std::sync::atomic::AtomicBool;

/// First code of bytes that are no part of a character; beyond every Unicode scalar value.
const RAW_BYTE: u32 = 0x11_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This character.
    Literal(u32),
    /// `?`: one character that is no slash.
    One,
    /// `*`: any number of characters that are no slash.
    Component,
    /// `**`: any number of characters.
    Any,
    /// `**/`: nothing, or any number of characters and a slash. The next step is always `Crossing`.
    MaybeDirectories,
    /// The state inside `**/`, before its slash.
    Crossing,
}

/// A compiled pattern, with room for the states of one match.
pub(crate) struct Glob {
    steps: Vec<Step>,
    /// Characters that every match has at least.
    shortest: usize,
    path: Vec<u32>,
    states: Vec<usize>,
    next: Vec<usize>,
    /// The position at which each state was last added, so that none is added twice.
    added: Vec<usize>,
}

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        let mut steps = Vec::new();
        let mut rest = pattern.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '?' => steps.push(Step::One),
                '*' => {
                    let mut stars = 1;
                    while rest.next_if_eq(&'*').is_some() {
                        stars += 1;
                    }
                    if stars == 1 {
                        steps.push(Step::Component);
                    } else if rest.next_if_eq(&'/').is_none() {
                        steps.push(Step::Any);
                    } else if steps.last() != Some(&Step::Crossing) {
                        steps.extend([Step::MaybeDirectories, Step::Crossing]);
                    }
                }
                literal => steps.push(Step::Literal(u32::from(literal))),
            }
        }
        let shortest = steps
            .iter()
            .filter(|step| matches!(step, Step::Literal(_) | Step::One))
            .count();
        let added = vec![0; steps.len() + 1];
        Self {
            steps,
            shortest,
            path: Vec::new(),
            states: Vec::new(),
            next: Vec::new(),
            added,
        }
    }

    /// Whether the whole of `path` matches.
    pub(crate) fn matches(&mut self, path: &[u8], cancel: &AtomicBool) -> Result<bool, Failure> {
        self.path.clear();
        for chunk in path.utf8_chunks() {
            self.path.extend(chunk.valid().chars().map(u32::from));
            self.path
                .extend(chunk.invalid().iter().map(|byte| RAW_BYTE + u32::from(*byte)));
        }
        if self.path.len() < self.shortest {
            return Ok(false);
        }
        self.added.fill(0);
        self.next.clear();
        self.add(0, 1);
        for position in 0..self.path.len() {
            // One round takes as long as the pattern, which a request makes as long as it likes.
            check_cancelled(cancel)?;
            let character = self.path[position];
            let slash = character == u32::from('/');
            std::mem::swap(&mut self.states, &mut self.next);
            self.next.clear();
            for index in 0..self.states.len() {
                let state = self.states[index];
                // Which states follow on this character; 0 stands for itself.
                let follow: &[usize] = match self.steps.get(state) {
                    Some(Step::Literal(literal)) if *literal == character => &[1],
                    Some(Step::One) if !slash => &[1],
                    Some(Step::Component) if !slash => &[0],
                    Some(Step::Any) => &[0],
                    Some(Step::Crossing) if slash => &[0, 1],
                    Some(Step::Crossing) => &[0],
                    _ => &[],
                };
                for offset in follow {
                    self.add(state + offset, position + 2);
                }
            }
            if self.next.is_empty() {
                return Ok(false);
            }
        }
        Ok(self.added[self.steps.len()] == self.path.len() + 1)
    }

    /// Adds a state, and those that it reaches without a character, to the next set.
    fn add(&mut self, state: usize, mark: usize) {
        let mut state = state;
        while self.added[state] != mark {
            self.added[state] = mark;
            self.next.push(state);
            match self.steps.get(state) {
                Some(Step::Component | Step::Any) => state += 1,
                Some(Step::MaybeDirectories) => {
                    self.add(state + 1, mark);
                    state += 2;
                }
                _ => break,
            }
        }
    }
}
