//! The one program of Node Goblin.

fn main() {}
