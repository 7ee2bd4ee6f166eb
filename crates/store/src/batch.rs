//! Conversion between rows and Arrow batches, driven by the schema in `base::record`.

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use base::record::{Cell, Column, FORMAT_VERSION, Kind, Row, Sink, Table, TableId, Text};
use base::text::clean_lines;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Returns the Arrow schema of a table. It includes each column's meaning, so that other tools can show it.
pub fn schema(table: TableId) -> SchemaRef {
    let spec = table.spec();
    let fields: Vec<Field> = spec
        .columns
        .iter()
        .map(|c| {
            let doc = [("description".to_owned(), c.doc.trim().to_owned())];
            Field::new(c.name, data_type(c.kind), c.nullable).with_metadata(HashMap::from(doc))
        })
        .collect();
    let meta = [
        ("tailback.format".to_owned(), FORMAT_VERSION.to_string()),
        ("tailback.table".to_owned(), spec.name.to_owned()),
        ("description".to_owned(), spec.doc.trim().to_owned()),
    ];
    Arc::new(Schema::new_with_metadata(fields, HashMap::from(meta)))
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Int => DataType::Int64,
        Kind::Real => DataType::Float64,
        Kind::Flag => DataType::Boolean,
        Kind::Text => DataType::Utf8,
    }
}

/// Arrow type of texts as numbers of a dictionary.
pub fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Returns a schema in which texts are numbers of a dictionary, or `None` if it has no texts.
pub fn with_dictionaries(schema: &Schema) -> Option<SchemaRef> {
    let is_text = |field: &FieldRef| *field.data_type() == DataType::Utf8;
    if !schema.fields().iter().any(is_text) {
        return None;
    }
    let fields = schema.fields().iter().map(|field| match is_text(field) {
        true => field.as_ref().clone().with_data_type(dictionary_type()),
        false => field.as_ref().clone(),
    });
    let fields: Vec<Field> = fields.collect();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    Some(Arc::new(schema))
}

/// Column of texts.
pub enum Texts<'b> {
    /// Text of each row, as in open files.
    Plain(&'b StringArray),
    /// Dictionary, and each row's number in it, as in closed files: rows share few texts.
    Numbered(&'b Int32Array, &'b StringArray),
}

impl<'b> Texts<'b> {
    /// Views a column that [`find`] found.
    pub fn of(array: &'b ArrayRef) -> Texts<'b> {
        match array.as_dictionary_opt::<Int32Type>() {
            Some(array) => Texts::Numbered(array.keys(), array.values().as_string::<i32>()),
            None => Texts::Plain(array.as_string::<i32>()),
        }
    }

    /// Text of a row; `None` if it is null.
    pub fn get(&self, row: usize) -> Option<&'b str> {
        match self {
            Texts::Plain(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Texts::Numbered(keys, texts) => {
                let key = keys.is_valid(row).then(|| keys.value(row))?;
                let key = usize::try_from(key).ok().filter(|k| *k < texts.len())?;
                texts.is_valid(key).then(|| texts.value(key))
            }
        }
    }
}

enum Builder {
    Int(Int64Builder),
    Real(Float64Builder),
    Flag(BooleanBuilder),
    Text(StringBuilder),
}

impl Builder {
    fn new(kind: Kind) -> Builder {
        match kind {
            Kind::Int => Builder::Int(Int64Builder::new()),
            Kind::Real => Builder::Real(Float64Builder::new()),
            Kind::Flag => Builder::Flag(BooleanBuilder::new()),
            Kind::Text => Builder::Text(StringBuilder::new()),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Int(b) => ArrayBuilder::finish(b),
            Builder::Real(b) => ArrayBuilder::finish(b),
            Builder::Flag(b) => ArrayBuilder::finish(b),
            Builder::Text(b) => ArrayBuilder::finish(b),
        }
    }
}

/// Rows of one table, collected for a batch.
pub struct Rows {
    schema: SchemaRef,
    columns: Vec<Builder>,
    len: usize,
}

impl Rows {
    pub fn new(table: TableId) -> Rows {
        let columns = table
            .spec()
            .columns
            .iter()
            .map(|c| Builder::new(c.kind))
            .collect();
        Rows {
            schema: schema(table),
            columns,
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn push(&mut self, row: &Row) {
        row.put(self);
        self.len += 1;
    }

    /// Adds a row whose table is known at compile time; faster than `push` for importers with millions of rows.
    pub fn push_as<T: Table>(&mut self, row: &T) {
        row.put(self);
        self.len += 1;
    }

    /// Takes everything pushed so far as one batch, and empties the collection.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        self.len = 0;
        RecordBatch::try_new(
            self.schema.clone(),
            self.columns.iter_mut().map(Builder::finish).collect(),
        )
    }
}

/// Appends a value to a column. The kinds are those of the schema that made the columns, so no other arm is reachable.
macro_rules! append {
    ($self:ident, $column:ident, $kind:ident, $value:expr) => {
        match &mut $self.columns[$column] {
            Builder::$kind(b) => b.append_value($value),
            _ => panic!("column {} takes no such value", $column),
        }
    };
}

impl Sink for Rows {
    fn int(&mut self, column: usize, value: i64) {
        append!(self, column, Int, value);
    }
    fn real(&mut self, column: usize, value: f64) {
        append!(self, column, Real, value);
    }
    fn flag(&mut self, column: usize, value: bool) {
        append!(self, column, Flag, value);
    }
    fn text(&mut self, column: usize, value: &str) {
        append!(self, column, Text, value);
    }
    fn null(&mut self, column: usize) {
        match &mut self.columns[column] {
            Builder::Int(b) => b.append_null(),
            Builder::Real(b) => b.append_null(),
            Builder::Flag(b) => b.append_null(),
            Builder::Text(b) => b.append_null(),
        }
    }
}

/// Converts batches to rows. Columns are found by name: a nullable column that the file lacks reads as null, and a
/// column unknown to this build is ignored.
pub struct RowReader {
    table: TableId,
    /// Shared texts, because texts repeat between rows.
    texts: BTreeSet<Text>,
}

impl RowReader {
    pub fn new(table: TableId) -> RowReader {
        RowReader {
            table,
            texts: BTreeSet::new(),
        }
    }

    /// # Errors
    /// Fails with the batch's defect; then none of its rows is returned.
    pub fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<Row>, String> {
        let spec = self.table.spec();
        let columns: Vec<Option<&ArrayRef>> = spec
            .columns
            .iter()
            .map(|c| find(batch, c))
            .collect::<Result<_, _>>()?;
        let row = |i| {
            let mut cells =
                |c: usize| columns[c].map_or(Cell::Null, |array| cell(array, i, &mut self.texts));
            let row = self.table.row(&mut cells);
            row.ok_or_else(|| {
                format!(
                    "row {i} of a batch has a value that table {} does not allow",
                    spec.name
                )
            })
        };
        (0..batch.num_rows()).map(row).collect()
    }
}

pub fn find<'b>(batch: &'b RecordBatch, column: &Column) -> Result<Option<&'b ArrayRef>, String> {
    let Some(array) = batch.column_by_name(column.name) else {
        return if column.nullable {
            Ok(None)
        } else {
            Err(format!("column {} is missing", column.name))
        };
    };
    let (want, have) = (data_type(column.kind), array.data_type());
    let is_numbered = column.kind == Kind::Text && *have == dictionary_type();
    if *have != want && !is_numbered {
        return Err(format!("column {} holds {have}, not {want}", column.name));
    }
    Ok(Some(array))
}

fn cell(array: &ArrayRef, i: usize, texts: &mut BTreeSet<Text>) -> Cell {
    if array.is_null(i) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(i)),
        DataType::Float64 => Cell::Real(array.as_primitive::<Float64Type>().value(i)),
        DataType::Boolean => Cell::Flag(array.as_boolean().value(i)),
        _ => {
            let Some(text) = Texts::of(array).get(i) else {
                return Cell::Null;
            };
            if let Some(known) = texts.get(text) {
                return Cell::Text(known.clone());
            }
            let text = Text::from(&*clean_lines(text));
            texts.insert(text.clone());
            Cell::Text(text)
        }
    }
}
