//! Checksum of `meta.json`: its last member, over all preceding text. It detects damage and manual edits; it does not
//! authenticate the author.

/// Text between the members of the recording and the checksum.
const BEFORE: &str = ",\n  \"checksum\": \"crc32:";
const AFTER: &str = "\"\n}\n";
/// Name of the member.
pub const MEMBER: &str = "checksum";

/// Adds the checksum to a JSON object of several lines.
pub fn add(pretty: &str) -> String {
    let open = pretty.trim_end().trim_end_matches('}').trim_end();
    format!(
        "{open}{BEFORE}{:08x}{AFTER}",
        crc32fast::hash(open.as_bytes())
    )
}

/// True if the checksum fits the text, or if there is none, as in recordings of earlier releases.
pub fn fits(text: &[u8], has_one: bool) -> bool {
    if !has_one {
        return true;
    }
    let tail = BEFORE.len() + 8 + AFTER.len();
    let Some(at) = text.len().checked_sub(tail) else {
        return false;
    };
    let (open, rest) = text.split_at(at);
    rest == format!("{BEFORE}{:08x}{AFTER}", crc32fast::hash(open)).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_stays_json_with_one_member_more() {
        let text = add("{\n  \"a\": {\n    \"b\": 1\n  }\n}");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["a"]["b"], 1);
        assert!(value[MEMBER].is_string(), "{text}");
        assert!(fits(text.as_bytes(), true));
        assert!(fits(b"{}", false), "an earlier release wrote none");
        assert!(!fits(b"{}", true));
    }

    proptest! {
        #[test]
        fn every_changed_byte_is_found(title in "[a-z \"äß\n]{0,40}", at in any::<prop::sample::Index>(), flip in 1u8..=255) {
            let object = serde_json::json!({ "title": title, "n": 7 });
            let pretty = serde_json::to_string_pretty(&object).expect("plain data");
            let mut text = add(&pretty).into_bytes();
            prop_assert!(fits(&text, true));
            let at = at.index(text.len());
            text[at] ^= flip;
            prop_assert!(!fits(&text, true));
        }
    }
}
