//! Tables that fit into the terminal: where there is little room, the least important columns are left out. What is not
//! printed to a terminal has them all.

use comfy_table::Table;

use crate::commands::inspect::new_table;

/// The columns that standard output has room for; `None` when it is no terminal.
pub(super) fn terminal_columns() -> Option<u16> {
    new_table(&[]).width()
}

/// The table of `header` and `lines`. Columns named in `spare` are left out, one after the other, until it fits into
/// `room`; then a line below says how many they are, and that `elsewhere` has them.
pub(super) fn fitted(
    header: &[&str],
    lines: &[Vec<String>],
    spare: &[&str],
    room: Option<u16>,
    elsewhere: &str,
) -> String {
    let mut kept: Vec<usize> = (0..header.len()).collect();
    let mut spare = spare.iter();
    loop {
        let table = table_of(header, lines, &kept);
        if room.is_none_or(|room| width(&table) <= usize::from(room)) {
            return told(&table, header.len() - kept.len(), elsewhere);
        }
        match spare.next() {
            Some(name) => kept.retain(|column| header[*column] != *name),
            None => return told(&table, header.len() - kept.len(), elsewhere),
        }
    }
}

fn table_of(header: &[&str], lines: &[Vec<String>], kept: &[usize]) -> Table {
    let header: Vec<&str> = kept.iter().map(|column| header[*column]).collect();
    let mut table = new_table(&header);
    for line in lines {
        let cells = kept.iter().map(|column| line[*column].as_str());
        table.add_row(cells.collect::<Vec<_>>());
    }
    table
}

/// With a space on either side of every cell.
fn width(table: &Table) -> usize {
    let widths = table.column_max_content_widths();
    widths.iter().map(|width| usize::from(*width) + 2).sum()
}

fn told(table: &Table, left_out: usize, elsewhere: &str) -> String {
    match left_out {
        0 => format!("{table}\n"),
        1 => format!("{table}\n1 column left out: widen the terminal, or see {elsewhere}\n"),
        _ => format!(
            "{table}\n{left_out} columns left out: widen the terminal, or see {elsewhere}\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no line is longer than the room, and no more is left out than must be.
    #[test]
    fn the_least_important_columns_give_way_first() {
        let header = ["test", "ops/s", "tail", "max"];
        let lines = [["a", "12,345", "4.5 x", "10 ms"]
            .map(str::to_owned)
            .to_vec()];
        let all = |room| fitted(&header, &lines, &["tail", "max"], room, "--csv");
        let whole = all(None);
        assert!(whole.contains("tail") && whole.contains("max"), "{whole}");
        let longest = |text: &str| text.lines().take(2).map(|line| line.chars().count()).max();
        let room = u16::try_from(longest(&whole).unwrap_or(0)).unwrap_or(0);
        assert_eq!(all(Some(room)), whole);
        let narrower = all(Some(room - 1));
        assert!(
            !narrower.contains("tail") && narrower.contains("max"),
            "{narrower}"
        );
        assert!(narrower.contains("1 column left out: widen the terminal, or see --csv"));
        assert!(longest(&narrower) < longest(&whole), "{narrower}");
        let narrowest = all(Some(1));
        assert!(narrowest.contains("12,345"), "{narrowest}");
        assert!(narrowest.contains("2 columns left out"), "{narrowest}");
    }
}
