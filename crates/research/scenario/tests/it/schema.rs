//! The committed JSON schema is the one of the types.

use std::path::PathBuf;

/// Set to rewrite the schema, as after a new key or a new law.
const UPDATE: &str = "MANYWAY_UPDATE_SCHEMA";

#[test]
fn the_committed_schema_is_current() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/scenario.schema.json");
    let now = format!("{:#}\n", manyway_scenario::schema());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, now).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let first = committed.lines().zip(now.lines()).find(|(a, b)| a != b);
    assert!(
        committed == now,
        "docs/scenario.schema.json is not up to date, first at {first:?}: run {UPDATE}=1 cargo \
         test -p manyway-scenario --test it schema"
    );
}
