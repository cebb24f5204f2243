//! Names and ledgers, made once: a walk builds facts millions of times.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use lifecycle::{ClusterId, IssuedId, Ledger, Owner, SecretName, SecretUid};

use crate::world::{ANOTHERS, CREDENTIALS, FORGED, Kind, NOBODY, V, version};

pub const UID: &str = "6f1c2d3e-0000-4000-8000-00000000000a";

/// How the names of Secrets end that are not what they say.
pub(super) const FORGED_NAME: &str = "-forged";

/// Every ledger that was ever written in this run, so that a state needs only its number.
#[derive(Debug, Default)]
pub struct Ledgers(RwLock<Table>);

type Table = (HashMap<Arc<Ledger>, u32>, Vec<Arc<Ledger>>);

impl Ledgers {
    pub fn of(&self, number: u32) -> Option<Arc<Ledger>> {
        if number == ANOTHERS {
            return None;
        }
        let index = usize::try_from(number.checked_sub(1)?).expect("few");
        let table = self.0.read().expect("no walk panics while writing");
        Some(table.1[index].clone())
    }

    pub fn number(&self, ledger: &Ledger) -> u32 {
        let known = |table: &HashMap<Arc<Ledger>, u32>| table.get(ledger).copied();
        if let Some(number) = known(&self.0.read().expect("no walk panics while writing").0) {
            return number;
        }
        let mut table = self.0.write().expect("no walk panics while writing");
        if let Some(number) = known(&table.0) {
            return number;
        }
        let ledger = Arc::new(ledger.clone());
        table.1.push(ledger.clone());
        let number = u32::try_from(table.1.len()).expect("few");
        table.0.insert(ledger, number);
        number
    }
}

pub struct Names {
    pub ids: Vec<IssuedId>,
    pub(super) holders: Vec<lifecycle::Holder>,
    pub(super) fingerprints: Vec<lifecycle::Fingerprint>,
    pub(super) places: Vec<Arc<str>>,
    pub(super) secrets: HashMap<(Kind, V, u8), (SecretName, SecretUid, SecretUid)>,
}

pub fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let credentials = || {
            let all = 0..u8::try_from(CREDENTIALS).expect("few");
            all.clone()
                .chain([NOBODY])
                .chain(all.map(|one| FORGED + one))
        };
        let kinds = [Kind::Draft, Kind::Final, Kind::Target];
        let secrets = kinds.into_iter().flat_map(|kind| {
            (0..64).flat_map(move |v| {
                credentials().map(move |credential| {
                    let forged = if (FORGED..NOBODY).contains(&credential) {
                        FORGED_NAME
                    } else {
                        ""
                    };
                    let name = format!("{kind:?}-{}-{credential}", version(v)).to_lowercase();
                    let name = format!("{name}{forged}");
                    let uid = format!("uid-{name}");
                    let old = format!("old-{name}");
                    ((kind, v, credential), (name.into(), uid.into(), old.into()))
                })
            })
        });
        Names {
            ids: (0..CREDENTIALS).map(|n| format!("id-{n}").into()).collect(),
            holders: (0..8).map(|n| format!("consumer-{n}").into()).collect(),
            places: (0..16).map(|n| format!("place-{n}").into()).collect(),
            fingerprints: (0..16).map(|n| format!("print-{n}").into()).collect(),
            secrets: secrets.collect(),
        }
    })
}

pub fn number_of(id: &IssuedId) -> u8 {
    id.as_str()
        .strip_prefix("id-")
        .and_then(|number| number.parse().ok())
        .unwrap_or(NOBODY)
}

/// Which credentials the issuer would list for us. The names go through the real reading of marks, so that a foreign
/// one is listed only if that lets it through.
pub fn listed(mark: V, foreign: bool, index: usize) -> bool {
    static OURS: OnceLock<Vec<bool>> = OnceLock::new();
    let table = OURS.get_or_init(|| {
        let cluster = ClusterId::of_cluster("11111111-2222-3333-4444-555555555555");
        let us = Owner::new(cluster.clone(), UID);
        let other = Owner::new(cluster, "6f1c2d3e-0000-4000-8000-00000000000b");
        let foreign = [
            "somebody-elses-1-1".to_owned(),
            other.mark(version(9)).to_string(),
        ];
        let ours = (0..64).map(|v| us.mark(version(v)).to_string());
        foreign
            .into_iter()
            .chain(ours)
            .map(|name| us.version_of(&name).is_some())
            .collect()
    });
    let row = if foreign {
        index
    } else {
        2 + usize::from(mark)
    };
    table[row]
}
