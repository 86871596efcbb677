//! A database of each earlier schema opens, has the newest schema then, and works.

use std::path::Path;

use offshoot_core::ObjectKind;
use offshoot_store::conformance::{earlier_schemas, make_earlier_database};
use offshoot_store::{
    Durability, HistoryFilter, MetaStore, ReadTx, SqliteOptions, SqliteStore, WorkspaceState,
};
use rusqlite::Connection;

fn read<T>(store: &SqliteStore, work: impl Fn(&dyn ReadTx) -> offshoot_core::Result<T>) -> T {
    let mut answer = None;
    let read = store.read(&mut |tx| {
        answer = Some(work(tx)?);
        Ok(())
    });
    read.unwrap();
    answer.unwrap()
}

/// Every table and index, as SQLite has it. The spaces of a column that was added later differ.
fn schema_of(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut all = connection
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap();
    let rows = all.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|sql| sql.unwrap().split_whitespace().collect())
        .collect()
}

#[test]
fn a_database_of_every_earlier_schema_opens_and_works() {
    let dir = tempfile::tempdir().unwrap();
    let fresh = dir.path().join("fresh.db");
    drop(SqliteStore::open(&fresh, SqliteOptions::default()).unwrap());
    for schema in earlier_schemas() {
        let path = dir.path().join(format!("{schema}.db"));
        make_earlier_database(schema, &path);
        let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
        assert_eq!(store.damage().unwrap(), Vec::<String>::new(), "{schema}");
        let rows = read(&store, |tx| tx.all_workspaces());
        assert_eq!(rows.len(), if schema == 1 { 3 } else { 9 }, "{schema}");
        for row in &rows {
            assert!(!read(&store, |tx| tx.snapshots(row.key, 0)).is_empty());
        }
        let lines = read(&store, |tx| tx.history(&HistoryFilter::default()));
        assert!(lines.len() >= 10, "{schema}: {}", lines.len());
        let head = rows[0].head.unwrap();
        let object = read(&store, |tx| tx.object(&head)).unwrap();
        assert_eq!(object.kind, ObjectKind::Commit);
        // What came with a schema has its rows, and the columns that came later have values.
        let project = rows.iter().find(|row| row.id.as_str() == "web");
        if let Some(project) = project {
            let settings = read(&store, |tx| tx.project_settings(project.key)).unwrap();
            let protects = settings.protect != "[]";
            assert_eq!(protects, schema >= 5, "{schema}");
            assert_eq!(read(&store, |tx| tx.forks_of(project.key)).len(), 4);
            let merges = read(&store, |tx| tx.merges(Some(project.key), None, 0));
            assert_eq!(merges.len(), if schema >= 3 { 3 } else { 0 }, "{schema}");
            let agent = &read(&store, |tx| tx.agents())[0];
            assert_eq!(agent.workspace_key.map(|key| key.0), Some(4), "{schema}");
        }
        let tokens = read(&store, |tx| tx.tokens(None, 0)).len();
        assert_eq!(tokens, if schema >= 4 { 3 } else { 0 }, "{schema}");
        // No setting of the old kind is left, and merges that were not checked are recorded.
        let setting = |key: &str| read(&store, |tx| tx.setting(key));
        assert_eq!(setting(&format!("request/{}", "ab".repeat(32))), None);
        let look_through = setting("merges_to_look_through");
        assert_eq!(look_through.is_some(), schema >= 3, "{schema}");
        let open = rows.iter().find(|row| row.state == WorkspaceState::Open);
        let mut changed = open.unwrap().clone();
        changed.revision += 1;
        let written = store.write(Durability::Synced, &mut |tx| tx.update_workspace(&changed));
        written.unwrap();
        assert_eq!(
            read(&store, |tx| tx.workspace_by_key(changed.key)),
            Some(changed)
        );
        drop(store);
        assert_eq!(schema_of(&path), schema_of(&fresh), "{schema}");
    }
}
