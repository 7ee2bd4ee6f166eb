//! Rows as lines of text: a JSON array with the name of the table and the row's cells, in the order of its columns. A
//! browser hands its rows on in this form.

use super::{Cell, Row, TableId};

/// Longest line that is read.
const LONGEST: usize = 16 << 10;

/// Appends a row and a line break.
pub fn write(row: &Row, out: &mut String) {
    let mut cells: Vec<Cell> = Vec::new();
    row.put(&mut cells);
    cells.insert(0, Cell::Text(row.table().spec().name.into()));
    // Cells are plain data.
    out.push_str(&serde_json::to_string(&cells).unwrap_or_default());
    out.push('\n');
}

/// Reads a row.
///
/// # Errors
/// Fault of a line of the text.
pub fn read(line: &str) -> Result<Row, String> {
    if line.len() > LONGEST {
        return Err(format!("a line of {} bytes is too long", line.len()));
    }
    let cells: Vec<Cell> = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let Some((Cell::Text(name), cells)) = cells.split_first() else {
        return Err("the name of the table is missing".into());
    };
    let id = TableId::ALL.iter().find(|id| id.spec().name == &**name);
    let id = id.ok_or_else(|| format!("no table \"{}\"", crate::text::clean(name)))?;
    let columns = id.spec().columns.len();
    if cells.len() != columns {
        let (name, n) = (id.spec().name, cells.len());
        return Err(format!("a row of {name} has {columns} cells, not {n}"));
    }
    id.row(&mut |i| cells[i].clone())
        .ok_or_else(|| format!("a cell of {} has the wrong type", id.spec().name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Delay, Direction, Event, Flow};

    #[test]
    fn rows_are_the_same_after_a_turn_through_text_and_others_are_refused() {
        let delay = Delay {
            rtt_ns: Some(-3),
            ..Delay::unanswered(i64::MAX, i64::MIN, "a \"b\"\n".into())
        };
        let flow = Flow {
            bytes_received: Some(1 << 60),
            ..Flow::about(7, 2, Direction::Down)
        };
        let event = Event {
            t_ns: -1,
            kind: "phase".into(),
            subject: "".into(),
            detail: "{}".into(),
        };
        let mut text = String::new();
        let rows: [Row; 3] = [delay.into(), flow.into(), event.into()];
        rows.iter().for_each(|row| write(row, &mut text));
        let back: Vec<Row> = text.lines().map(|l| read(l).expect(l)).collect();
        assert_eq!(back, rows);
        for (line, why) in [
            ("", "EOF"),
            ("{}", "sequence"),
            ("[]", "name"),
            ("[7]", "name"),
            ("[\"nothing\"]", "no table"),
            ("[\"event\",1]", "4 cells, not 1"),
            ("[\"event\",1.5,\"a\",\"b\",\"c\"]", "wrong type"),
            ("[\"event\",null,\"a\",\"b\",\"c\"]", "wrong type"),
        ] {
            let e = read(line).expect_err(line);
            assert!(e.contains(why), "{line}: {e}");
        }
    }
}
