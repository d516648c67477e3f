use crate::file::File;

/// The JSON schema of scenario files, for editors and other programs; `docs/scenario.schema.json` is this.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).to_value()
}
