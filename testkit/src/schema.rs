//! Check of a JSON value against a JSON schema, for the keywords that our schemas use; any other keyword is an error, so
//! that nothing passes unread.

use serde_json::Value;

/// First place at which the value breaks the schema; `None` if it keeps it.
///
/// # Panics
/// If the schema has a keyword that is not read here, or a reference that leads nowhere.
pub fn breach(schema: &Value, value: &Value) -> Option<String> {
    Check { root: schema }.at("", schema, value)
}

struct Check<'a> {
    root: &'a Value,
}

/// Keywords that say nothing about a value.
const REMARKS: [&str; 8] = [
    "$schema",
    "$defs",
    "title",
    "description",
    "default",
    "format",
    "examples",
    "x-arrow-type",
];

impl Check<'_> {
    fn at(&self, place: &str, schema: &Value, value: &Value) -> Option<String> {
        let Some(keywords) = schema.as_object() else {
            let refuses = schema == &Value::Bool(false);
            return refuses.then(|| format!("{place}: nothing may stand here"));
        };
        let mut all = keywords.iter();
        all.find_map(|(keyword, rule)| self.keyword(place, (keyword, rule), schema, value))
    }

    fn keyword(
        &self,
        place: &str,
        (keyword, rule): (&str, &Value),
        schema: &Value,
        value: &Value,
    ) -> Option<String> {
        let broken =
            |is_kept: bool| (!is_kept).then(|| format!("{place}: {value} breaks {keyword} {rule}"));
        let rules = || rule.as_array().expect("a list of rules");
        let number = || rule.as_f64().expect("a number");
        let kept = || {
            rules()
                .iter()
                .filter(|r| self.at(place, r, value).is_none())
        };
        match keyword {
            k if REMARKS.contains(&k) => None,
            "$ref" => {
                let path = rule.as_str().and_then(|r| r.strip_prefix('#'));
                let target = path.and_then(|p| self.root.pointer(p));
                self.at(place, target.expect("a reference inside the schema"), value)
            }
            "type" => broken(match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                kind => is_of(kind, value),
            }),
            "const" => broken(rule == value),
            "enum" => broken(rules().contains(value)),
            "anyOf" => broken(kept().next().is_some()),
            "oneOf" => broken(kept().count() == 1),
            "allOf" => rules().iter().find_map(|r| self.at(place, r, value)),
            "minimum" => broken(value.as_f64().is_none_or(|v| v >= number())),
            "maximum" => broken(value.as_f64().is_none_or(|v| v <= number())),
            "minItems" => broken(value.as_array().is_none_or(|v| v.len() as f64 >= number())),
            "maxItems" => broken(value.as_array().is_none_or(|v| v.len() as f64 <= number())),
            "required" => broken(value.as_object().is_none_or(|fields| {
                rules()
                    .iter()
                    .filter_map(Value::as_str)
                    .all(|r| fields.contains_key(r))
            })),
            "properties" => self.properties(place, rule, value),
            "additionalProperties" => self.others(place, rule, schema, value),
            "prefixItems" => self.items(place, |i| rules().get(i), value),
            "items" => {
                let before = schema["prefixItems"].as_array().map_or(0, Vec::len);
                self.items(place, |i| (i >= before).then_some(rule), value)
            }
            other => panic!("{place}: the schema has {other}, which is not read here"),
        }
    }

    fn properties(&self, place: &str, rules: &Value, value: &Value) -> Option<String> {
        let mut rules = rules.as_object().expect("properties").iter();
        rules.find_map(|(key, rule)| self.at(&format!("{place}/{key}"), rule, value.get(key)?))
    }

    fn others(&self, place: &str, rule: &Value, schema: &Value, value: &Value) -> Option<String> {
        let is_named = |key: &str| schema["properties"].get(key).is_some();
        let mut fields = value.as_object()?.iter().filter(|(key, _)| !is_named(key));
        fields.find_map(|(key, field)| self.at(&format!("{place}/{key}"), rule, field))
    }

    fn items<'r>(
        &self,
        place: &str,
        rule: impl Fn(usize) -> Option<&'r Value>,
        value: &Value,
    ) -> Option<String> {
        let mut items = value.as_array()?.iter().enumerate();
        items.find_map(|(i, item)| self.at(&format!("{place}/{i}"), rule(i)?, item))
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("unknown type {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_keyword_refuses_what_breaks_it() {
        let schema = json!({
            "$defs": {"Way": {"enum": ["up", "down"]}},
            "type": "object",
            "required": ["n"],
            "properties": {
                "n": {"type": "integer", "minimum": 1},
                "way": {"anyOf": [{"$ref": "#/$defs/Way"}, {"type": "null"}]},
                "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}, "maxItems": 3},
            },
            "additionalProperties": {"type": "boolean"},
        });
        for good in [
            json!({"n": 1}),
            json!({"n": 2, "way": "up", "pair": ["a", 1.5, 2], "more": true}),
            json!({"n": 3, "way": null}),
        ] {
            assert_eq!(breach(&schema, &good), None);
        }
        for (bad, place) in [
            (json!([]), ""),
            (json!({}), ""),
            (json!({"n": 0}), "/n"),
            (json!({"n": 1.5}), "/n"),
            (json!({"n": 1, "way": "left"}), "/way"),
            (json!({"n": 1, "pair": [1]}), "/pair/0"),
            (json!({"n": 1, "pair": ["a", "b"]}), "/pair/1"),
            (json!({"n": 1, "pair": ["a", 1, 2, 3]}), "/pair"),
            (json!({"n": 1, "more": 5}), "/more"),
        ] {
            let found = breach(&schema, &bad).unwrap_or_else(|| panic!("{bad} passes"));
            assert!(found.starts_with(&format!("{place}: ")), "{bad}: {found}");
        }
    }
}
