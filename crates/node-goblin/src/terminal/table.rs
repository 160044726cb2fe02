//! Aligned columns.

use crate::terminal::{FAINT, paint};
use anstyle::Style;
use std::fmt;

/// A table with a heading. Cells are plain text, already safe, each with a style.
pub struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<(Style, String)>>,
}

impl Table {
    /// An empty table. A table whose headings are all blank shows none.
    pub fn new<const N: usize>(heading: [&'static str; N]) -> Self {
        Self {
            heading: heading.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [(Style, String); N]) {
        self.rows.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..self.heading.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells
                    .map(|(_, text)| width(text))
                    .chain([width(self.heading[column])])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let heading = self.heading.iter().map(|text| (FAINT, (*text).to_owned())).collect();
        let with_heading = self.heading.iter().any(|text| !text.is_empty());
        let rows = std::iter::once(&heading).filter(|_| with_heading).chain(&self.rows);
        for (index, row) in rows.enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            for (column, (style, text)) in row.iter().enumerate() {
                write!(f, "{}", paint(*style, text))?;
                // Nothing trails the last column.
                if column + 1 < row.len() {
                    write!(f, "{:1$}", "", widths[column] - width(text) + 2)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["ID", "STATUS"]);
        let plain = Style::new();
        table.row([(plain, "grüße".into()), (plain, "ready".into())]);
        table.row([(plain, "b".into()), (plain, "x".into())]);
        let shown = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(shown, "ID     STATUS\ngrüße  ready\nb      x");
    }

    #[test]
    fn blank_headings_are_left_out() {
        let mut table = Table::new(["", ""]);
        table.row([(Style::new(), "a".into()), (Style::new(), "b".into())]);
        assert_eq!(anstream::adapter::strip_str(&table.to_string()).to_string(), "a  b");
    }
}
