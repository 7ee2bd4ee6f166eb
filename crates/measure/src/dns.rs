//! Minimal DNS query (RFC 1035 section 4), to measure how long a resolver takes for one name.

/// Query for the IPv4 address of `name`, recursion desired. `None` if the name cannot be encoded.
pub fn encode(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len() + 18);
    out.extend(id.to_be_bytes());
    out.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name = name.strip_suffix('.').unwrap_or(name);
    for label in name.split('.') {
        let len = u8::try_from(label.len()).ok()?;
        if !(1..=63).contains(&len) {
            return None;
        }
        out.push(len);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend([0, 1, 0, 1]);
    (name.len() <= 253).then_some(out)
}

/// Number of the query that this answers and its result code, if it repeats our question.
pub fn decode(bytes: &[u8], query: &[u8]) -> Option<(u16, u8)> {
    let id = u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]);
    let is_answer = bytes.get(2)? & 0x80 != 0;
    let question = bytes.get(12..query.len())?;
    (is_answer && question.eq_ignore_ascii_case(&query[12..])).then_some((id, bytes[3] & 15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_repeat_the_question() {
        let query = encode(77, "www.example.org").unwrap();
        assert_eq!(query.len(), 12 + 17 + 4);
        let mut answer = query.clone();
        answer[2] |= 0x80;
        answer[3] = 3;
        answer.extend([0; 16]);
        assert_eq!(decode(&answer, &query), Some((77, 3)));
        assert_eq!(decode(&query, &query), None, "a question is no answer");
        let other = encode(77, "www.example.com").unwrap();
        assert_eq!(decode(&answer, &other), None);
        assert_eq!(decode(&answer[..14], &query), None);
    }

    #[test]
    fn a_name_that_cannot_be_asked_for_is_refused() {
        assert_eq!(encode(1, "a..b"), None);
        assert_eq!(encode(1, ""), None);
        assert_eq!(encode(1, &"x".repeat(64)), None);
        assert!(encode(1, "example.org.").is_some());
    }
}
