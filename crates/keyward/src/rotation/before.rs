//! Which credentials a Secret of ours records, now and earlier: what has no mark at its issuer is this resource's only
//! because of such a record.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use lifecycle::IssuedId;

use super::observe::Observation;
use super::{Kind, secrets};
use crate::engine::names;

/// More are not kept: an old one is ended long before so many have followed it.
const MOST: usize = 8;

/// Keeps the id that a Secret records, which is about to give way to the next.
pub(super) fn note(kind: &dyn Kind, secret: &mut Secret, next: &IssuedId) {
    let present = secrets::read(kind, secret).and_then(|stored| stored.id);
    let before = of(secret);
    let mut ids: Vec<String> = Vec::new();
    for id in present.iter().map(IssuedId::as_str).chain(before) {
        if id != next.as_str() && !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids.truncate(MOST);
    if !ids.is_empty() {
        let notes = secret.annotations_mut();
        notes.insert(names::ISSUED_BEFORE.into(), ids.join(","));
    }
}

fn of(secret: &Secret) -> impl Iterator<Item = &str> {
    let ids = secret.annotations().get(names::ISSUED_BEFORE);
    ids.into_iter()
        .flat_map(|ids| ids.split(','))
        .filter(|id| !id.is_empty())
}

impl Observation {
    /// Whether a Secret of this resource's, which our finalizer is on, records this id. A record that was made good from
    /// the ledger is the ledger's word, which whoever may edit the resource can write.
    pub(super) fn has_a_guarded_record_of(&self, id: &IssuedId) -> bool {
        self.secrets.iter().any(|secret| {
            let own = !self.damaged.iter().any(|damaged| damaged.is(secret));
            let records = secrets::read(self.kind.as_ref(), secret).is_some_and(|stored| {
                let before = || of(secret).any(|before| before == id.as_str());
                stored.guarded && (stored.id.as_ref() == Some(id) || before())
            });
            own && records
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::demo::Demo;

    fn recording(id: &str) -> Secret {
        let mut secret = Secret::default();
        let labels = [(names::OWNER_UID, "some-uid"), (names::ROLE, "target")];
        for (key, value) in labels {
            secret.labels_mut().insert(key.into(), value.into());
        }
        record(&mut secret, id);
        secret
    }

    fn record(secret: &mut Secret, id: &str) {
        let notes = secret.annotations_mut();
        notes.insert(names::ISSUED_ID.into(), id.into());
    }

    #[test]
    fn the_ids_of_before_are_kept_newest_first_and_not_without_end() {
        let kind = Demo::default();
        let mut secret = recording("id-0");
        note(&kind, &mut secret, &IssuedId::from("id-0"));
        assert_eq!(of(&secret).count(), 0, "what stays is not before anything");
        for next in 1..=10 {
            let id = format!("id-{next}");
            note(&kind, &mut secret, &IssuedId::from(id.as_str()));
            record(&mut secret, &id);
        }
        let kept: Vec<&str> = of(&secret).collect();
        let newest = [
            "id-9", "id-8", "id-7", "id-6", "id-5", "id-4", "id-3", "id-2",
        ];
        assert_eq!(kept, newest);
    }
}
