//! What may be called how. Gateways accept names that nobody can use, and refuse others without a word: so they are looked at
//! before anything is sent.

/// Longer ones make a gateway fail.
const LONGEST_ACCOUNT_NAME: usize = 2040;
const LONGEST_IAM_NAME: usize = 64;

/// `RGW` and 17 digits.
pub fn is_account_id(text: &str) -> bool {
    text.len() == 20
        && text
            .strip_prefix("RGW")
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

pub fn is_account_name(text: &str) -> bool {
    (1..=LONGEST_ACCOUNT_NAME).contains(&text.len()) && !text.contains('$')
}

/// Users of an account are named in policies by their display name.
pub fn is_iam_name(text: &str) -> bool {
    (1..=LONGEST_IAM_NAME).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte))
}

/// The id of the account of the resource with this uid, the same as other operators derive: the last twelve and the first two
/// hexadecimal digits as a number. `None`: this is no uid.
pub fn derived_account_id(uid: &str) -> Option<String> {
    let digits: String = uid.chars().filter(|letter| *letter != '-').collect();
    let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !hex || digits.len() < 14 {
        return None;
    }
    let last = &digits[digits.len() - 12..];
    let number = u64::from_str_radix(&format!("{last}{}", &digits[..2]), 16).ok()?;
    Some(format!("RGW{number:017}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_id_follows_from_the_uid_and_from_nothing_else() {
        let uid = "8381b532-471c-4ebb-adde-b9a60aed7c27";
        let id = derived_account_id(uid);
        assert_eq!(id.as_deref(), Some("RGW52255436555691907"));
        assert_eq!(derived_account_id(&uid.replace('-', "")), id);
        assert_eq!(derived_account_id(uid), id, "and stays the same");
        let other = derived_account_id("8381b532-471c-4ebb-adde-b9a60aed7c28");
        assert_ne!(other, id, "two uids, two ids");
        assert!(is_account_id(&other.unwrap()));
        let largest = derived_account_id("ffffffff-ffff-ffff-ffff-ffffffffffff");
        assert!(is_account_id(&largest.unwrap()), "the largest fits");
        for bad in ["", "8381b532", "not-a-uid-at-all-but-long-enough"] {
            assert_eq!(derived_account_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_that_a_gateway_cannot_keep_are_none() {
        for bad in ["RGW1", "rgw00000000000000001", "RGW0000000000000000X", ""] {
            assert!(!is_account_id(bad), "{bad}");
        }
        let long = "x".repeat(2041);
        for bad in ["", "a$b", &long] {
            assert!(!is_account_name(bad), "{bad}");
        }
        assert!(is_account_name("my account"));
        for bad in ["", "two words", "a/b", "\u{fc}", &"x".repeat(65)] {
            assert!(!is_iam_name(bad), "{bad}");
        }
        assert!(is_iam_name("root+=,.@-_1"));
    }
}
