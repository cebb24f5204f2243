//! Asking one vCenter with one login.

use std::collections::{BTreeMap, BTreeSet};

use sources::vcenter::{Refusal, Session, VCenter as Connection};

use super::Question;
use crate::cli::vsphere::accounts::VCenter;
use crate::cli::vsphere::credentials_file::Login;
use crate::cli::vsphere::inventory::InventoryObject;

/// What a vCenter said.
#[derive(Debug)]
pub(super) enum Answers {
    Told {
        /// Every privilege that it knows; empty if it does not tell.
        known: BTreeSet<String>,
        /// What the login may do at each object; `None` where it sees nothing.
        held: BTreeMap<InventoryObject, Option<BTreeSet<String>>>,
    },
    LoginRefused,
    Unreachable(String),
}

/// Logs in, asks about every object, and logs out, whatever came.
pub(super) async fn ask(
    vcenter: &VCenter,
    login: &Login,
    ca: Option<Vec<u8>>,
    questions: &[Question],
) -> Answers {
    match asked(vcenter, login, ca, questions).await {
        Ok(answers) => answers,
        Err(Refusal::InvalidLogin) => Answers::LoginRefused,
        Err(
            refusal @ (Refusal::NotAuthenticated
            | Refusal::NoPermission
            | Refusal::Fault(_)
            | Refusal::Trouble(_)),
        ) => Answers::Unreachable(refusal.to_string()),
    }
}

async fn asked(
    vcenter: &VCenter,
    login: &Login,
    ca: Option<Vec<u8>>,
    questions: &[Question],
) -> Result<Answers, Refusal> {
    let connection = Connection::reach(&vcenter.server, vcenter.port, ca).await?;
    let objects: BTreeSet<&InventoryObject> = questions
        .iter()
        .flat_map(|question| question.needs.iter().map(|(object, _)| object))
        .collect();
    let first = once(&connection, login, &objects).await;
    match first {
        // A session can end in between. The password was right a moment ago, so that this is no guess.
        Err(Refusal::NotAuthenticated) => once(&connection, login, &objects).await,
        other => other,
    }
}

async fn once(
    connection: &Connection,
    login: &Login,
    objects: &BTreeSet<&InventoryObject>,
) -> Result<Answers, Refusal> {
    let session = connection.log_in(&login.user, &login.password).await?;
    let told = look(&session, objects).await;
    // What was learned stays true if the farewell is lost.
    let _ = session.log_out().await;
    told
}

async fn look(
    session: &Session<'_>,
    objects: &BTreeSet<&InventoryObject>,
) -> Result<Answers, Refusal> {
    let known = session.known_privileges().await?.into_iter().collect();
    let mut held = BTreeMap::new();
    for object in objects {
        held.insert((*object).clone(), privileges(session, &object.path).await?);
    }
    Ok(Answers::Told { known, held })
}

async fn privileges(
    session: &Session<'_>,
    path: &str,
) -> Result<Option<BTreeSet<String>>, Refusal> {
    let Some(object) = session.find(path).await? else {
        return Ok(None);
    };
    match session.privileges_on(&object).await {
        Ok(held) => Ok(Some(held.into_iter().collect())),
        Err(Refusal::NoPermission) => Ok(None),
        Err(other) => Err(other),
    }
}
