//! The JSON schema.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

use crate::file::File;

/// The JSON schema of scenario files, for editors and other programs; `docs/scenario.schema.json`
/// is this.
///
/// It knows keys, types, units and laws; whether the parts fit together,
/// [`Scenario::points`](crate::Scenario::points) finds out.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(without_null))
        .with_transform(RecursiveTransform(on_one_line));
    settings
        .into_generator()
        .into_root_schema_for::<File>()
        .to_value()
}

/// What may be left out can't be null in TOML.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else {
        return;
    };
    choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
    if let [Value::Object(only)] = &choices[..] {
        let only = only.clone();
        schema.remove("anyOf");
        for (key, value) in only {
            // A key's own description comes before that of its type.
            if schema.get(&key).is_none() {
                schema.insert(key, value);
            }
        }
    }
}

/// Where a docstring's lines break is no matter to a reader of the schema.
fn on_one_line(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}
