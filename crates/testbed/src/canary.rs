//! Looking for secret values where none may be.
//!
//! A value can leak whole or in part, as it is or in some encoding. What is looked for is therefore not the value but
//! every piece of it: eight bytes in the clear or in hex, about as much in base64 (both alphabets, at all three
//! alignments), escaped for URLs, or escaped for JSON.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The shortest piece of a value that counts as a leak, in bytes.
pub const SHORTEST_PIECE: usize = 8;

/// The secret values of one test. Clones collect into the same set.
#[derive(Clone, Default)]
pub struct Canaries(Arc<Mutex<Needles>>);

impl fmt::Debug for Canaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canaries")
            .field("names", &self.needles().names)
            .finish_non_exhaustive()
    }
}

/// Where a value was found. Never the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// What was scanned.
    pub found_in: String,
    /// The name the value was added under.
    pub canary: String,
    pub encoding: Encoding,
    /// Byte position of the first piece.
    pub at: usize,
    /// How many positions match; a whole value gives many.
    pub pieces: usize,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} leaks into {} ({}, at byte {}, {} pieces)",
            self.canary, self.found_in, self.encoding, self.at, self.pieces
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    Plain,
    Base64,
    Base64Url,
    Hex,
    UrlEscaped,
    JsonEscaped,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Base64 => "base64",
            Self::Base64Url => "base64url",
            Self::Hex => "hex",
            Self::UrlEscaped => "URL-escaped",
            Self::JsonEscaped => "JSON-escaped",
        })
    }
}

impl Canaries {
    pub fn new() -> Self {
        Self::default()
    }

    fn needles(&self) -> MutexGuard<'_, Needles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this value may be nowhere. The name is what a finding is reported under.
    ///
    /// # Panics
    /// If the value is shorter than [`SHORTEST_PIECE`]: it would be found by chance.
    pub fn add(&self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        assert!(
            value.len() >= SHORTEST_PIECE,
            "canary {name} is too short to be told from chance"
        );
        self.needles().add(name, value);
    }

    /// How many values are looked for.
    pub fn len(&self) -> usize {
        self.needles().names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every value found in these bytes, one finding per value and encoding.
    pub fn scan(&self, where_from: &str, bytes: &[u8]) -> Vec<Leak> {
        self.needles().scan(where_from, bytes)
    }

    /// Fails the test if a value is found.
    ///
    /// # Panics
    /// With all findings, and without the values.
    pub fn assert_absent(&self, where_from: &str, bytes: &[u8]) {
        let leaks = self.scan(where_from, bytes);
        let list: Vec<String> = leaks.iter().map(ToString::to_string).collect();
        assert!(
            leaks.is_empty(),
            "secret values leaked:\n{}",
            list.join("\n")
        );
    }
}

type Pieces = HashMap<Box<[u8]>, Vec<(usize, Encoding)>>;

/// Pieces by length, behind a filter on their first four bytes: logs are long, and nearly everything is no match.
struct Needles {
    names: Vec<String>,
    pieces: BTreeMap<usize, Pieces>,
    starts: Vec<u64>,
}

impl Default for Needles {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            pieces: BTreeMap::new(),
            starts: vec![0; 1 << 14],
        }
    }
}

impl Needles {
    fn add(&mut self, name: &str, value: &[u8]) {
        let canary = self.names.len();
        self.names.push(name.into());
        let add = |needles: &mut Self, encoding, text: &[u8], piece: usize| {
            for window in text.windows(piece) {
                needles.add_piece(canary, encoding, window);
            }
        };
        add(self, Encoding::Plain, value, SHORTEST_PIECE);
        let hex = hex_of(value);
        add(self, Encoding::Hex, hex.as_bytes(), 2 * SHORTEST_PIECE);
        add(
            self,
            Encoding::Hex,
            hex.to_uppercase().as_bytes(),
            2 * SHORTEST_PIECE,
        );
        for skipped in 0..3 {
            // Within a longer text the value starts at one of three places of a group of three. Dropping bytes until
            // a group starts gives letters that do not depend on what stands before.
            let whole = &value[skipped..value.len() - (value.len() - skipped) % 3];
            let piece = BASE64_PIECE.min(whole.len() / 3 * 4);
            add(
                self,
                Encoding::Base64,
                STANDARD_NO_PAD.encode(whole).as_bytes(),
                piece,
            );
            add(
                self,
                Encoding::Base64Url,
                URL_SAFE_NO_PAD.encode(whole).as_bytes(),
                piece,
            );
        }
        for (encoding, text) in [
            (Encoding::UrlEscaped, escaped_for_url(value, false)),
            (Encoding::UrlEscaped, escaped_for_url(value, true)),
            (Encoding::JsonEscaped, escaped_for_json(value)),
        ] {
            if text.as_bytes() != value {
                add(
                    self,
                    encoding,
                    text.as_bytes(),
                    ESCAPED_PIECE.min(text.len()),
                );
            }
        }
    }

    fn add_piece(&mut self, canary: usize, encoding: Encoding, piece: &[u8]) {
        let Some(start) = start_of(piece) else { return };
        self.starts[start / 64] |= 1 << (start % 64);
        let known = self.pieces.entry(piece.len()).or_default();
        let owners = known.entry(piece.into()).or_default();
        // A piece that is the same in two encodings counts as the plainer one.
        if owners.iter().all(|(owner, _)| *owner != canary) {
            owners.push((canary, encoding));
        }
    }

    fn scan(&self, where_from: &str, bytes: &[u8]) -> Vec<Leak> {
        let mut found: BTreeMap<(usize, Encoding), (usize, usize)> = BTreeMap::new();
        for at in 0..bytes.len() {
            let rest = &bytes[at..];
            let Some(start) = start_of(rest) else { break };
            if self.starts[start / 64] & (1 << (start % 64)) == 0 {
                continue;
            }
            for (length, known) in &self.pieces {
                let owners = rest.get(..*length).and_then(|piece| known.get(piece));
                for owner in owners.into_iter().flatten() {
                    found.entry(*owner).or_insert((at, 0)).1 += 1;
                }
            }
        }
        let leaks = found
            .into_iter()
            .map(|((canary, encoding), (at, pieces))| Leak {
                found_in: where_from.into(),
                canary: self.names[canary].clone(),
                encoding,
                at,
                pieces,
            });
        leaks.collect()
    }
}

/// Four whole groups would miss too much, two would be found by chance: three stand for nine bytes.
const BASE64_PIECE: usize = 12;
/// An escape triples a byte at most in URLs; the plain pieces find what is not escaped.
const ESCAPED_PIECE: usize = 12;

/// The place in the filter of a text that starts so.
fn start_of(text: &[u8]) -> Option<usize> {
    let first: [u8; 4] = text.get(..4)?.try_into().ok()?;
    let spread = u32::from_le_bytes(first).wrapping_mul(0x9E37_79B1);
    Some((spread >> 12) as usize)
}

fn hex_of(value: &[u8]) -> String {
    use fmt::Write;
    value.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Percent-escapes everything but letters, digits and `-_.~`; with `form`, a blank is a plus.
fn escaped_for_url(value: &[u8], form: bool) -> String {
    use fmt::Write;
    value.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(*byte));
            }
            b' ' if form => text.push('+'),
            other => {
                let _ = write!(text, "%{other:02X}");
            }
        }
        text
    })
}

fn escaped_for_json(value: &[u8]) -> String {
    let quoted = serde_json::Value::from(String::from_utf8_lossy(value)).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "zQ7-vR2_kM9\"xT4\\wL8 pB3/nH6+yD1";

    fn canaries() -> Canaries {
        let canaries = Canaries::new();
        canaries.add("password", VALUE);
        canaries
    }

    fn encodings_found(text: &str) -> Vec<Encoding> {
        let leaks = canaries().scan("a log", text.as_bytes());
        leaks.iter().map(|leak| leak.encoding).collect()
    }

    #[test]
    fn a_value_in_the_clear_is_found() {
        let leaks = canaries().scan("a log", format!("login with {VALUE} failed").as_bytes());
        assert_eq!(leaks[0].encoding, Encoding::Plain);
        assert_eq!(leaks[0].at, 11);
        assert_eq!(leaks[0].canary, "password");
    }

    #[test]
    fn any_eight_bytes_of_a_value_are_found_and_seven_are_not() {
        for start in 0..=VALUE.len() - 8 {
            let piece = &VALUE[start..start + 8];
            assert_eq!(encodings_found(&format!("..{piece}..")), [Encoding::Plain]);
            assert!(encodings_found(&format!("..{}..", &piece[..7])).is_empty());
        }
    }

    #[test]
    fn base64_is_found_at_every_alignment() {
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy"] {
                let text = format!("{before}{VALUE}{after}");
                let found = encodings_found(&STANDARD_NO_PAD.encode(&text));
                assert!(found.contains(&Encoding::Base64), "{before} {after}");
                let found = encodings_found(&URL_SAFE_NO_PAD.encode(&text));
                assert!(!found.is_empty(), "{before} {after}");
            }
        }
    }

    #[test]
    fn the_shortest_value_is_found_in_base64_too() {
        let canaries = Canaries::new();
        canaries.add("short", "8bytes!?");
        for before in ["", "a", "ab"] {
            let text = STANDARD_NO_PAD.encode(format!("{before}8bytes!?"));
            assert_eq!(canaries.scan("a log", text.as_bytes()).len(), 1, "{before}");
        }
    }

    #[test]
    fn hex_is_found_in_either_case() {
        let hex = hex_of(VALUE.as_bytes());
        assert_eq!(encodings_found(&hex), [Encoding::Hex]);
        assert_eq!(encodings_found(&hex.to_uppercase()), [Encoding::Hex]);
        assert_eq!(encodings_found(&hex[6..24]), [Encoding::Hex]);
    }

    #[test]
    fn escaped_values_are_found() {
        let url = escaped_for_url(VALUE.as_bytes(), false);
        assert!(encodings_found(&url).contains(&Encoding::UrlEscaped));
        let json = serde_json::json!({ "a": VALUE }).to_string();
        assert!(encodings_found(&json).contains(&Encoding::JsonEscaped));
    }

    #[test]
    fn harmless_text_is_left_alone() {
        let text = "GET /v1/a/credentials 200 kw1-11111111-6f1c2d3e00004000800000000000000a-7-2 "
            .repeat(500);
        assert!(encodings_found(&text).is_empty());
        assert!(encodings_found("").is_empty());
    }

    #[test]
    fn a_finding_does_not_repeat_the_value() {
        let leaks = canaries().scan("a log", VALUE.as_bytes());
        let printed = format!("{leaks:?} {} {:?}", leaks[0], canaries());
        assert!(canaries().scan("the report", printed.as_bytes()).is_empty());
    }

    #[test]
    #[should_panic(expected = "too short")]
    fn a_value_that_chance_could_write_is_refused() {
        Canaries::new().add("pin", "1234567");
    }
}
