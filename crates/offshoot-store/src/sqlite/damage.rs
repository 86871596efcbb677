//! Finding damage: SQLite's own check of its pages and indexes, and rows that do not fit others.

use rusqlite::Connection;

/// Queries for rows that must not exist; each returns one text per row.
///
/// Transactions are atomic, so a view never shows a row whose counterpart is still to come.
const MUST_BE_EMPTY: &[&str] = &[
    // References between rows without a foreign key.
    "SELECT 'workspace ' || key || ' has a head that is none of its snapshots' FROM workspace
     WHERE head IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM snapshot WHERE workspace = workspace.key AND id = workspace.head)",
    "SELECT 'project ' || workspace.key || ' has no settings' FROM workspace
     WHERE kind = 2 AND NOT EXISTS (SELECT 1 FROM project WHERE project.key = workspace.key)",
    "SELECT 'the settings of project ' || key || ' belong to no project' FROM project
     WHERE NOT EXISTS (SELECT 1 FROM workspace WHERE key = project.key AND kind = 2)",
    "SELECT 'workspace ' || workspace.key || ' is a fork of nothing' FROM workspace
     WHERE kind = 1 AND state = 0
        AND NOT EXISTS (SELECT 1 FROM fork WHERE fork.workspace = workspace.key)",
    "SELECT 'the fork ' || workspace || ' is no workspace' FROM fork
     WHERE NOT EXISTS (SELECT 1 FROM workspace WHERE key = fork.workspace AND kind = 1)",
    "SELECT 'review ' || id || ' belongs to a merge that is not there' FROM review
     WHERE merge <> '' AND NOT EXISTS (SELECT 1 FROM merge WHERE id = review.merge)",
    // Numbers that are computed from others.
    "SELECT 'the snapshots of workspace ' || workspace || ' are not numbered from 1 on'
     FROM snapshot GROUP BY workspace HAVING min(number) <> 1 OR max(number) <> count(*)",
    "SELECT 'candidates of review ' || review || ' are not numbered from 1 on'
     FROM candidate GROUP BY review HAVING min(number) <> 1 OR max(number) <> count(*)",
    "SELECT 'layer ' || layer.key || ' does not count the layers below it' FROM layer
     WHERE depth <> 1 + coalesce(
        (SELECT below.depth FROM layer AS below WHERE below.key = layer.below), 0)",
    "SELECT 'a line of the history of workspace ' || workspace || ' is newer than the workspace'
     FROM history WHERE revision > (SELECT revision FROM workspace WHERE key = history.workspace)
     GROUP BY workspace",
    "SELECT 'workspace ' || key || ' is on disk beyond its newest change' FROM workspace
     WHERE synced_revision > revision",
    "SELECT 'an object is said to be beyond the end of pack ' || pack.key FROM object
     JOIN pack ON pack.key = object.pack
     WHERE object.start IS NULL OR object.length IS NULL OR object.start < 0 OR object.length < 0
        OR object.start + object.length > pack.size GROUP BY pack.key",
    "SELECT 'an object has content in two places' FROM object
     WHERE bytes IS NOT NULL AND pack IS NOT NULL LIMIT 1",
    // Numbers that must not be given out twice.
    "SELECT 'numbers of table ' || name || ' would be given out twice' FROM sqlite_sequence
     WHERE seq < CASE name
        WHEN 'workspace' THEN (SELECT max(key) FROM workspace)
        WHEN 'pack' THEN (SELECT max(key) FROM pack)
        WHEN 'layer' THEN (SELECT max(key) FROM layer)
        WHEN 'history' THEN (SELECT max(seq) FROM history)
        WHEN 'completion' THEN (SELECT max(number) FROM completion)
        WHEN 'merge' THEN (SELECT max(number) FROM merge)
        WHEN 'review' THEN (SELECT max(number) FROM review) END",
];

/// All damage, found in one view of the database.
pub(super) fn find(connection: &Connection) -> Vec<String> {
    let mut found = Vec::new();
    let mut ask = |sql: &str, tell: &dyn Fn(&rusqlite::Row<'_>) -> rusqlite::Result<String>| {
        let told = connection.prepare(sql).and_then(|mut statement| {
            let rows = statement.query_map([], |row| tell(row))?;
            rows.collect::<rusqlite::Result<Vec<String>>>()
        });
        match told {
            Ok(told) => found.extend(told),
            // An error that ends the check is a finding too.
            Err(error) => found.push(error.to_string()),
        }
    };
    let text = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    ask("BEGIN", &text);
    ask("PRAGMA integrity_check", &text);
    ask("PRAGMA foreign_key_check", &|row| {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        Ok(format!(
            "a row of `{table}` names one of `{parent}` that is not there"
        ))
    });
    for sql in MUST_BE_EMPTY {
        ask(sql, &text);
    }
    ask("COMMIT", &text);
    // How SQLite says that it found nothing.
    found.retain(|told| told != "ok");
    found
}
