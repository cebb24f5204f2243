//! A resource that was restored from a backup, with the records of the life it had under another uid.
//!
//! Those records end nothing and are used for nothing, until a person names that uid in an annotation. Then its Secrets, as
//! far as they are here, are taken over like a predecessor's, and what bears its mark at the issuer is this resource's own.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifecycle::{
    Bearer, Former, Issued, IssuedId, LedgerState, Mark, Owner, Role, Trouble, Verdict, Version,
};
use sources::Source;

use super::ask::{list_at, open_at};
use super::observe::Observation;
use super::remains::living;
use super::secrets;
use super::{Kind, LeftVersion};
use crate::engine::trouble::Fault;
use crate::engine::watch::Scope;
use crate::engine::world::World;
use crate::engine::{names, reader};

/// More Secrets than any life leaves behind.
const MOST: u32 = 64;

/// The former life of this resource, if it has one: as its ledger says, or as a person does. `None` too if somebody living
/// has that uid: then this is a copy.
pub(super) async fn find(
    world: &World,
    kind: &dyn Kind,
    object: &DynamicObject,
) -> Result<Option<Former>, Fault> {
    let here = world.bearer(object);
    let note = object.annotations().get(names::LEDGER).map(String::as_str);
    let ledger = LedgerState::read(note, |of| *of == here, |_| false);
    let asked = object.annotations().get(names::TAKE_OVER);
    let known = ledger.is().and_then(|ledger| ledger.former.as_deref());
    if let Some(known) = known.filter(|known| known.taken || asked.is_none()) {
        return Ok(Some(known.clone()));
    }
    let of = match (&ledger, known) {
        (_, Some(known)) => known.of.clone(),
        (LedgerState::OfAnother(Some(of)), None) => of.as_ref().clone(),
        (
            LedgerState::Is(_)
            | LedgerState::Absent
            | LedgerState::Unreadable
            | LedgerState::Newer
            | LedgerState::OfAnother(None),
            None,
        ) => match asked {
            // The ledger is lost, and a person remembers.
            Some(uid) => Bearer {
                uid: uid.clone(),
                ..here.clone()
            },
            None => return Ok(None),
        },
    };
    if of.uid == here.uid || (asked.is_some() && asked != Some(&of.uid)) {
        return Ok(None);
    }
    let lives = if asked.is_some() {
        living(world, kind).await?.contains(&of.uid)
    } else {
        of.cluster == here.cluster && is_there(world, kind, &of).await?
    };
    let left = known.map_or(0, |known| known.left);
    Ok((!lives).then_some(Former {
        of,
        left,
        taken: false,
    }))
}

/// Whether what the life of this uid left is for this resource, or for a person, to decide about: it came with the records
/// of that life, or somebody has said what is to become of it.
pub(super) fn is_spoken_for(world: &World, object: &DynamicObject, uid: &str) -> bool {
    let here = world.bearer(object);
    let note = |key: &str| object.annotations().get(key).map(String::as_str);
    let ledger = LedgerState::read(note(names::LEDGER), |of| *of == here, |_| false);
    let recorded = match &ledger {
        LedgerState::Is(ledger) => ledger.former.as_deref().map(|former| &former.of),
        LedgerState::OfAnother(of) => of.as_deref(),
        LedgerState::Absent | LedgerState::Unreadable | LedgerState::Newer => None,
    };
    let said = [note(names::TAKE_OVER), note(names::LET_GO_OF)];
    recorded.is_some_and(|of| of.uid == uid) || said.contains(&Some(uid))
}

/// Whether the resource that a ledger names is there. Names never change: it can be nowhere else.
async fn is_there(world: &World, kind: &dyn Kind, of: &Bearer) -> Result<bool, Fault> {
    if !world.options.scope.includes(&of.namespace) {
        // Nobody may look: it is taken for living.
        return Ok(true);
    }
    let api = world.resources(kind, &of.namespace);
    let act = "looking for the resource that a ledger names";
    let found = world.timed(act, api.get_metadata_opt(&of.name)).await?;
    Ok(found.is_some_and(|found| found.uid().as_ref() == Some(&of.uid)))
}

/// Whether it is sure that nobody lives on with what that life had: in another cluster, or in a namespace that we may not
/// look at, somebody may.
fn nobody_lives(world: &World, former: &Former) -> bool {
    matches!(world.options.scope, Scope::All) && former.of.cluster == world.cluster
}

fn owner_of(former: &Former) -> Owner {
    Owner::new(former.of.cluster.clone(), &former.of.uid)
}

impl Observation {
    /// The former life that a person wants taken over, or that was.
    fn wanted_former(&self) -> Option<&Former> {
        let asked = self.object.annotations().get(names::TAKE_OVER);
        let former = self.former.as_ref()?;
        (former.taken || asked == Some(&former.of.uid)).then_some(former)
    }

    /// The former life whose credentials are listed beside this one's.
    pub(super) fn former_owner(&self) -> Option<Owner> {
        self.former.as_ref().map(owner_of)
    }

    /// What bears the mark of the former life, as part of this one: what is recorded by its own number here, all else with
    /// numbers that nothing of this life's has. In a life that was not taken over it is only counted.
    pub(super) fn as_own(
        &mut self,
        world: &World,
        found: Vec<Issued>,
        recorded: &[Issued],
    ) -> Vec<Issued> {
        let Some(former) = &mut self.former else {
            return Vec::new();
        };
        former.left = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let owner = owner_of(former);
        let nobody_lives = nobody_lives(world, former);
        if self.wanted_former().is_none() {
            return Vec::new();
        }
        let mut own = Vec::new();
        for (nth, one) in (1..).zip(found) {
            let known = recorded.iter().find(|known| known.id == one.id);
            if known.is_none() && !nobody_lives {
                continue;
            }
            self.marks.push((one.id.clone(), owner.mark(one.version)));
            own.push(Issued {
                version: known.map_or(Version::new(0, nth), |known| known.version),
                marked: true,
                ..one
            });
        }
        own
    }

    /// The mark that a credential of this resource's bears: that of its version, unless it comes from a former life that
    /// was taken over.
    pub(super) fn mark_of(&self, world: &World, version: Version, id: &IssuedId) -> Mark {
        let own = self.owner(world).mark(version);
        let Some(former) = self.wanted_former().map(owner_of) else {
            return own;
        };
        let mark = self.former_mark_of(version, id);
        mark.filter(|mark| *mark.owner() == former).unwrap_or(own)
    }

    /// The mark that was listed with it, or that its Secret notes.
    fn former_mark_of(&self, version: Version, id: &IssuedId) -> Option<Mark> {
        let seen = self.marks.iter().find(|(marked, _)| marked == id);
        let noted = || {
            let secret = self.secret_of(version)?;
            secret.annotations().get(names::MARK)?.parse::<Mark>().ok()
        };
        seen.map(|(_, mark)| mark.clone()).or_else(noted)
    }
}

/// What a former life made is ended by the mark that it bears, which its Secret notes. In place the next version was written
/// over that: then only the issuer knows.
pub(super) async fn learn_its_mark(
    world: &World,
    observed: &mut Observation,
    version: Version,
    id: &IssuedId,
    source: &Arc<dyn Source>,
) -> Result<(), Fault> {
    let Some(owner) = observed.wanted_former().map(owner_of) else {
        return Ok(());
    };
    if observed.former_mark_of(version, id).is_some() || !source.issuer().lists {
        return Ok(());
    }
    let found = list_at(world, source, &owner, &[]).await;
    for one in found.map_err(Fault::Issuer)? {
        let mark = owner.mark(one.version);
        observed.marks.push((one.id, mark));
    }
    Ok(())
}

/// The Secrets of the former life, where a person wants them.
pub(super) async fn secrets_left(
    world: &World,
    observed: &Observation,
) -> Result<Vec<Secret>, Fault> {
    let wanted = observed.wanted_former().filter(|former| !former.taken);
    let leaves = observed.kind.is_leaving(&observed.object);
    let Some(former) = wanted.filter(|_| !leaves) else {
        return Ok(Vec::new());
    };
    let api = world.secrets(&observed.namespace());
    let selector = format!("{}={}", names::OWNER_UID, former.of.uid);
    let params = ListParams::default().labels(&selector).limit(MOST);
    let act = "looking for the Secrets of a former life";
    let found = world.timed(act, api.list(&params)).await?.items;
    let its = |secret: &Secret| {
        let made = secrets::made_of(&secret.metadata);
        let named = made.as_ref().is_some_and(|made| {
            let secret_is = Some(secret.name_any());
            made.name.as_ref() == Some(&former.of.name)
                && (made.secret.is_none() || made.secret == secret_is)
        });
        let complete = secrets::read(observed.kind.as_ref(), secret)
            .is_some_and(|stored| stored.role != Role::Draft && stored.id.is_some());
        named && complete
    };
    Ok(found.into_iter().filter(its).collect())
}

/// Of these Secrets, those whose value lets somebody in. Where somebody unseen may live on with what they name, a name alone
/// gives nobody a right to it: whoever restores a Secret has its value, whoever forges one has not. With it, why one could
/// not be tried: none is taken then.
pub(super) async fn those_that_let_in(
    world: &World,
    observed: &Observation,
    left: Vec<Secret>,
) -> (Vec<Secret>, Option<Trouble>) {
    let former = observed.wanted_former();
    if left.is_empty() || former.is_some_and(|former| nobody_lives(world, former)) {
        return (left, None);
    }
    let mut proved = Vec::new();
    for secret in left {
        match lets_in(world, observed, &secret).await {
            Ok(Verdict::Works) => proved.push(secret),
            Ok(Verdict::Refused) => tracing::warn!(
                secret = secret.name_any(),
                "a Secret of a former life does not let anybody in; it is left alone"
            ),
            Err(trouble) => return (Vec::new(), Some(trouble)),
        }
    }
    (proved, None)
}

/// Tried where the Secret says that its credential was made.
async fn lets_in(
    world: &World,
    observed: &Observation,
    secret: &Secret,
) -> Result<Verdict, Trouble> {
    let mut object = observed.object.clone();
    if let Some(made) = secrets::made_of(&secret.metadata) {
        made.restore(observed.kind.as_ref(), &mut object);
    }
    let recorded = secrets::read(observed.kind.as_ref(), secret).and_then(|stored| stored.id);
    let Some(id) = recorded else {
        return Ok(Verdict::Refused);
    };
    let source = open_at(world, observed, &object).await?;
    let values = reader::values(secret);
    let asked = source.verify_as(&id, &values);
    world.at_issuer(&source, "verify", asked).await
}

/// A Secret of the former life, read as a version of this one.
pub(super) fn left_version(observed: &Observation, secret: &Secret) -> Option<LeftVersion> {
    let former = observed.wanted_former()?;
    if secret.labels().get(names::OWNER_UID) != Some(&former.of.uid) {
        return None;
    }
    let stored = secrets::read(observed.kind.as_ref(), secret)?;
    Some(LeftVersion {
        id: stored.id?,
        fingerprint: stored.fingerprint,
        minted: stored.minted?,
        expires: stored.expires,
        current: false,
    })
}

/// The mark that it bears at the issuer.
pub(super) fn mark_in(observed: &Observation, secret: &Secret) -> Option<Mark> {
    let former = observed.wanted_former()?;
    let noted = secret.annotations().get(names::MARK);
    let noted = noted.and_then(|mark| mark.parse::<Mark>().ok());
    let stored = secrets::read(observed.kind.as_ref(), secret)?;
    Some(noted.unwrap_or_else(|| owner_of(former).mark(stored.version)))
}
