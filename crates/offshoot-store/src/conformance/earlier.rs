//! Databases of earlier schemas, each with the rows of a small store: what is here must open for
//! ever. A new schema adds one, of the schema before it.

use std::path::Path;

use rusqlite::Connection;

/// The database of each earlier schema as SQL, the first one of schema 1.
const DUMPS: [&str; 9] = [
    include_str!("schemas/1.sql"),
    include_str!("schemas/2.sql"),
    include_str!("schemas/3.sql"),
    include_str!("schemas/4.sql"),
    include_str!("schemas/5.sql"),
    include_str!("schemas/6.sql"),
    include_str!("schemas/7.sql"),
    include_str!("schemas/8.sql"),
    include_str!("schemas/9.sql"),
];

/// The schemas of which there is a database.
pub fn earlier_schemas() -> std::ops::RangeInclusive<usize> {
    1..=DUMPS.len()
}

/// Makes the database of an earlier schema. There must be no file of that name.
pub fn make_earlier_database(schema: usize, path: &Path) {
    let dump = schema.checked_sub(1).and_then(|index| DUMPS.get(index));
    Connection::open(path)
        .unwrap()
        .execute_batch(dump.unwrap())
        .unwrap();
}
