//! An answer as a tree. Names count without their prefix: servers choose prefixes as they like.

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// Deeper than any answer that we ask for.
const DEEPEST: usize = 64;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    /// `type` or `xsi:type`.
    pub(super) kind: Option<String>,
    pub(super) text: String,
    pub(super) children: Vec<Element>,
}

impl Element {
    /// The outermost element; `None` if this is not XML as SOAP allows it. Entities are not expanded.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader::from_str(text);
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().ok()? {
                Event::Start(tag) => {
                    if open.len() > DEEPEST {
                        return None;
                    }
                    open.push(Self::begun(&tag)?);
                }
                Event::Empty(tag) => open.last_mut()?.children.push(Self::begun(&tag)?),
                Event::End(_) => {
                    let done = open.pop()?;
                    open.last_mut()?.children.push(done);
                }
                Event::Text(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::CData(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::GeneralRef(name) => {
                    let sign = match name.resolve_char_ref().ok()? {
                        Some(sign) => sign,
                        None => predefined(&name)?,
                    };
                    open.last_mut()?.text.push(sign);
                }
                Event::DocType(_) => return None,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::Eof => break,
            }
        }
        let root = open.pop()?;
        if !open.is_empty() {
            return None;
        }
        root.children.into_iter().next()
    }

    fn begun(tag: &BytesStart) -> Option<Self> {
        let mut kind = None;
        for attribute in tag.attributes() {
            let attribute = attribute.ok()?;
            if attribute.key.local_name().as_ref() == "type" {
                let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
                // A type's name may have a prefix too.
                let bare = value.rsplit(':').next().unwrap_or_default();
                kind = Some(bare.to_owned());
            }
        }
        Some(Self {
            name: tag.local_name().as_ref().to_owned(),
            kind,
            ..Self::default()
        })
    }

    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of a child.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        Some(self.child(name)?.text.as_str())
    }
}

fn predefined(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_do_not_matter() {
        let one = Element::parse(r#"<a:b xmlns:a="u" x:type="y:T"><c>1 &lt; &#50;</c><c/></a:b>"#);
        let one = one.expect("it is XML");
        assert_eq!((one.name.as_str(), one.kind.as_deref()), ("b", Some("T")));
        assert_eq!(one.text_of("c"), Some("1 < 2"));
        assert_eq!(one.all("c").count(), 2);
    }

    #[test]
    fn what_is_no_answer_is_refused_without_harm() {
        let deep = "<a>".repeat(1_000_000);
        for text in [
            "",
            "no XML",
            "<a>",
            "<a></b>",
            "<a/><b",
            "<a>&entity;</a>",
            r#"<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>"#,
            &deep,
        ] {
            assert_eq!(Element::parse(text), None);
        }
    }
}
