//! The looks and the decision of a pass, and nothing of what follows.

use std::sync::Arc;

use lifecycle::{Decision, Facts, Next, decide};

use super::Kind;
use super::ask::ask;
use super::facts::facts;
use super::observe::{Memory, observe};
use crate::engine::controller::Context;
use crate::engine::trouble::Fault;

/// More questions than any decision needs.
const MOST_QUESTIONS: usize = 16;

/// What the operator sees in a resource, and what it would do next.
#[derive(Debug)]
pub struct Explained {
    pub facts: Facts,
    pub decision: Decision,
    pub asked_issuer: bool,
}

/// `None`: there is no such resource. The issuer is asked only on request.
pub async fn explain(
    context: &Context<'_>,
    kind: &Arc<dyn Kind>,
    ask_issuer: bool,
) -> Result<Option<Explained>, Fault> {
    let world = context.world;
    // When the operator last compared the issuer with the ledger only it knows: the timed check is left out here.
    let mut memory = Memory {
        checked: Some(world.now()),
        ..Memory::default()
    };
    let Some(mut observed) = observe(context, kind, &mut memory).await? else {
        return Ok(None);
    };
    let mut asked_issuer = false;
    for _ in 0..MOST_QUESTIONS {
        let decision = decide(&facts(&observed, world.now()));
        let Next::Ask(question) = decision.next else {
            break;
        };
        let for_issuer = question.is_for_the_issuer();
        if for_issuer && !ask_issuer {
            break;
        }
        asked_issuer |= for_issuer;
        ask(
            world,
            context.key,
            &mut observed,
            question,
            decision.because,
        )
        .await?;
    }
    let facts = facts(&observed, world.now());
    Ok(Some(Explained {
        decision: decide(&facts),
        facts,
        asked_issuer,
    }))
}
