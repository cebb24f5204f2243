//! What is sent to a vCenter, and how its answers are read. No text of an answer is passed on but names.

use quick_xml::escape::escape;

use super::element::Element;
use crate::SecretValue;

/// A managed object: its type and its id there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    pub(super) kind: String,
    pub(super) id: String,
}

impl Object {
    pub(super) fn service_instance() -> Self {
        Self {
            kind: "ServiceInstance".to_owned(),
            id: "ServiceInstance".to_owned(),
        }
    }

    fn read(element: &Element) -> Option<Self> {
        Some(Self {
            kind: element.kind.clone()?,
            id: Some(&element.text).filter(|id| !id.is_empty())?.clone(),
        })
    }

    fn write(&self, name: &str) -> String {
        let (kind, id) = (escape(self.kind.as_str()), escape(self.id.as_str()));
        format!("<{name} type=\"{kind}\">{id}</{name}>")
    }
}

/// The objects that everything begins with.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub(super) root: Object,
    pub(super) sessions: Object,
    pub(super) authorization: Object,
    pub(super) search: Object,
    pub(super) properties: Object,
}

/// A call: what it is called, on what, and what goes with it.
pub(super) fn call(method: &str, on: &Object, arguments: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><soapenv:Body>\
         <{method} xmlns=\"urn:vim25\">{}{arguments}</{method}></soapenv:Body></soapenv:Envelope>",
        on.write("_this")
    )
}

pub(super) fn login(user: &str, password: &SecretValue) -> Option<String> {
    let password = escape(password.expose_str()?);
    Some(format!(
        "<userName>{}</userName><password>{password}</password>",
        escape(user)
    ))
}

pub(super) fn path(path: &str) -> String {
    format!("<inventoryPath>{}</inventoryPath>", escape(path))
}

pub(super) fn privileges_on(entity: &Object, user: &str) -> String {
    format!(
        "{}<userName>{}</userName>",
        entity.write("entities"),
        escape(user)
    )
}

/// One property of one object.
pub(super) fn property(of: &Object, name: &str) -> String {
    format!(
        "<specSet><propSet><type>{}</type><pathSet>{}</pathSet></propSet><objectSet>{}</objectSet></specSet><options/>",
        escape(of.kind.as_str()),
        escape(name),
        of.write("obj")
    )
}

/// What a vCenter answered: the result, or the fault's type.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Result(Element),
    Fault(String),
}

pub(super) fn answer(body: &[u8]) -> Option<Answer> {
    let envelope = Element::parse(std::str::from_utf8(body).ok()?)?;
    let mut parts = envelope.children.into_iter();
    let body = parts.find(|part| part.name == "Body")?;
    let inner = body.children.into_iter().next()?;
    if inner.name == "Fault" {
        return Some(Answer::Fault(fault(&inner)));
    }
    inner
        .name
        .ends_with("Response")
        .then_some(Answer::Result(inner))
}

/// `InvalidLogin`, `NoPermission`, …; what follows it may quote what was sent.
fn fault(fault: &Element) -> String {
    let detail = fault
        .child("detail")
        .and_then(|detail| detail.children.first());
    let named = detail.and_then(|detail| {
        let of_element = detail.name.strip_suffix("Fault").map(str::to_owned);
        detail.kind.clone().or(of_element)
    });
    let is_name =
        |name: &String| name.len() <= 64 && name.chars().all(|sign| sign.is_ascii_alphanumeric());
    named
        .filter(is_name)
        .unwrap_or_else(|| "unknown".to_owned())
}

pub(super) fn service(result: &Element) -> Option<Service> {
    let content = result.child("returnval")?;
    let object = |name: &str| Object::read(content.child(name)?);
    Some(Service {
        root: object("rootFolder")?,
        sessions: object("sessionManager")?,
        authorization: object("authorizationManager")?,
        search: object("searchIndex")?,
        properties: object("propertyCollector")?,
    })
}

/// Who we are there: not always as it was typed.
pub(super) fn user_name(result: &Element) -> Option<String> {
    let name = result.child("returnval")?.text_of("userName")?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

pub(super) fn found(result: &Element) -> Option<Object> {
    Object::read(result.child("returnval")?)
}

pub(super) fn held(result: &Element) -> Vec<String> {
    let each = result.all("returnval");
    each.flat_map(|one| one.all("privileges"))
        .map(|privilege| privilege.text.clone())
        .collect()
}

/// The ids of a `privilegeList`.
pub(super) fn known(result: &Element) -> Vec<String> {
    let objects = result.child("returnval").into_iter();
    objects
        .flat_map(|found| found.all("objects"))
        .flat_map(|object| object.all("propSet"))
        .filter_map(|property| property.child("val"))
        .flat_map(|value| value.all("AuthorizationPrivilege"))
        .filter_map(|privilege| Some(privilege.text_of("privId")?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_escaped() {
        let password = SecretValue::new("a<b>&\"'");
        let text = login("DOM\\u&v", &password).expect("it is text");
        assert_eq!(
            text,
            "<userName>DOM\\u&amp;v</userName><password>a&lt;b&gt;&amp;&quot;&apos;</password>"
        );
        let sent = call("Login", &Object::service_instance(), &text);
        assert!(Element::parse(&sent).is_some());
    }

    #[test]
    fn a_fault_is_known_by_its_type_alone() {
        let body = br#"<soapenv:Envelope xmlns:soapenv="s"><soapenv:Body><soapenv:Fault><faultcode>x</faultcode>
            <faultstring>hunter2</faultstring><detail><Fault xmlns:i="w" i:type="InvalidLogin"></Fault></detail>
            </soapenv:Fault></soapenv:Body></soapenv:Envelope>"#;
        assert_eq!(answer(body), Some(Answer::Fault("InvalidLogin".to_owned())));
        let odd =
            br#"<E><Body><Fault><detail><a type="hunter2 hunter2"/></detail></Fault></Body></E>"#;
        assert_eq!(answer(odd), Some(Answer::Fault("unknown".to_owned())));
        assert_eq!(answer(b"<html>"), None);
        assert_eq!(answer(b"\xff"), None);
    }

    /// A real answer with bytes of it left out, doubled or replaced; the same each time.
    #[test]
    fn damaged_answers_are_read_or_refused_without_harm() {
        let whole = br#"<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="s"><soapenv:Body><FetchUserPrivilegeOnEntitiesResponse xmlns="urn:vim25"><returnval><entity type="Folder">group-d1</entity><privileges>Cns.Searchable</privileges><privileges>System.&#82;ead</privileges></returnval></FetchUserPrivilegeOnEntitiesResponse></soapenv:Body></soapenv:Envelope>"#;
        match answer(whole) {
            Some(Answer::Result(found)) => {
                assert_eq!(held(&found), ["Cns.Searchable", "System.Read"]);
            }
            other => panic!("{other:?}"),
        }
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % limit as u64).unwrap()
        };
        for _ in 0..20_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..=below(4) {
                let (from, to) = (below(bytes.len()), below(bytes.len()));
                let (from, to) = (from.min(to), from.max(to));
                match below(3) {
                    0 if to > from && bytes.len() > to - from => drop(bytes.drain(from..to)),
                    1 => bytes.extend_from_within(from..to),
                    _ => bytes[from] = b"<>&;\"/ \xff0"[below(9)],
                }
            }
            if let Some(Answer::Result(found)) = answer(&bytes) {
                let _ = (
                    service(&found),
                    user_name(&found),
                    super::found(&found),
                    held(&found),
                    known(&found),
                );
            }
        }
    }
}
