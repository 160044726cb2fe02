//! The Aho-Corasick automaton over the patterns.
//!
//! Owns: the trie, its failure links and, for each state, the two lengths that redaction decides
//! by. Must never know: streams or marks. It is our own rather than a library's because redaction
//! needs the depth of a state, to hold back no byte more than needed, and because the patterns
//! must be wiped from memory with it.

use zeroize::Zeroizing;

/// No such transition. The root is nobody's child, so its number is free for this.
const NONE: u32 = 0;

pub(crate) struct Automaton {
    /// The root's transitions, by byte; every other state keeps a list of siblings.
    root: Zeroizing<[u32; 256]>,
    /// The byte that leads into each state. With `root`, all that tells the patterns.
    bytes: Zeroizing<Vec<u8>>,
    states: Vec<State>,
    longest: usize,
}

#[derive(Clone, Copy, Default)]
struct State {
    child: u32,
    sibling: u32,
    fail: u32,
    depth: u32,
    /// Length of the longest pattern that ends here, or 0.
    matched: u32,
    /// Length of the longest proper beginning of a pattern that ends here.
    hold: u32,
}

impl Automaton {
    pub(crate) const ROOT: u32 = 0;

    /// `None` when there is no pattern to look for.
    pub(crate) fn new<'a>(patterns: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Self> {
        let longest = patterns.clone().map(<[u8]>::len).max().unwrap_or(0);
        if longest == 0 {
            return None;
        }
        let total: usize = patterns.clone().map(<[u8]>::len).sum();
        // Reserved once, so that no reallocation leaves a copy behind.
        let mut automaton = Self {
            root: Zeroizing::new([NONE; 256]),
            bytes: Zeroizing::new(Vec::with_capacity(total + 1)),
            states: Vec::with_capacity(total + 1),
            longest,
        };
        automaton.bytes.push(0);
        automaton.states.push(State::default());
        for pattern in patterns.filter(|pattern| !pattern.is_empty()) {
            automaton.insert(pattern);
        }
        automaton.link();
        Some(automaton)
    }

    /// Length of the longest pattern.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Where the first byte lies that can begin an occurrence.
    pub(crate) fn find_first_byte(&self, input: &[u8]) -> Option<usize> {
        input.iter().position(|byte| self.root[usize::from(*byte)] != NONE)
    }

    /// The state after one more byte. Amortised constant over a stream, for a bounded alphabet.
    pub(crate) fn step(&self, mut state: u32, byte: u8) -> u32 {
        loop {
            let next = self.child(state, byte);
            if next != NONE || state == Self::ROOT {
                return next;
            }
            state = self.states[state as usize].fail;
        }
    }

    pub(crate) fn matched(&self, state: u32) -> usize {
        self.states[state as usize].matched as usize
    }

    pub(crate) fn hold(&self, state: u32) -> usize {
        self.states[state as usize].hold as usize
    }

    fn child(&self, state: u32, byte: u8) -> u32 {
        if state == Self::ROOT {
            return self.root[usize::from(byte)];
        }
        let mut child = self.states[state as usize].child;
        while child != NONE && self.bytes[child as usize] != byte {
            child = self.states[child as usize].sibling;
        }
        child
    }

    fn insert(&mut self, pattern: &[u8]) {
        let mut state = Self::ROOT;
        for byte in pattern {
            let next = self.child(state, *byte);
            state = if next == NONE { self.append(state, *byte) } else { next };
        }
        let state = &mut self.states[state as usize];
        state.matched = state.depth;
    }

    fn append(&mut self, parent: u32, byte: u8) -> u32 {
        // No set of patterns that fits an environment comes near 2^32 bytes.
        let number = self.states.len() as u32;
        let depth = self.states[parent as usize].depth + 1;
        let sibling = std::mem::replace(&mut self.states[parent as usize].child, number);
        if parent == Self::ROOT {
            self.root[usize::from(byte)] = number;
        }
        self.bytes.push(byte);
        self.states.push(State {
            sibling,
            depth,
            ..State::default()
        });
        number
    }

    /// Sets failure links and lengths, shallow states first.
    fn link(&mut self) {
        let mut queue = Vec::with_capacity(self.states.len());
        queue.push(Self::ROOT);
        let mut next = 0;
        while let Some(&parent) = queue.get(next) {
            next += 1;
            let mut child = self.states[parent as usize].child;
            while child != NONE {
                let fail = if parent == Self::ROOT {
                    Self::ROOT
                } else {
                    let byte = self.bytes[child as usize];
                    self.step(self.states[parent as usize].fail, byte)
                };
                let beyond = self.states[fail as usize];
                let state = &mut self.states[child as usize];
                state.fail = fail;
                if state.matched == 0 {
                    state.matched = beyond.matched;
                }
                state.hold = if state.child == NONE { beyond.hold } else { state.depth };
                queue.push(child);
                child = state.sibling;
            }
        }
    }
}
