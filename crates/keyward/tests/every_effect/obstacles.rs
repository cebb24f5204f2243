//! What can stand in the way of an effect.

use testbed::apiserver::Fault;

use crate::effects::{Effect, Where};

/// Who has the Secret that stands in the way.
pub(crate) const SOMEBODY: &str = "adopt";
/// Whose finalizer keeps what is on its way out.
pub(crate) const KEEPER: &str = "example.org/keeper";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The right is missing.
    Forbidden,
    /// A rule of the cluster, or of the issuer, does not allow it.
    Invalid,
    /// It is accepted, and nothing changes.
    Ignored,
    /// Somebody is always faster.
    Outrun,
    /// Somebody else's object stands there.
    Anothers,
    /// The object is on its way out, and somebody else keeps it.
    Deleting,
}

pub(crate) const OBSTACLES: [Obstacle; 6] = [
    Obstacle::Forbidden,
    Obstacle::Invalid,
    Obstacle::Ignored,
    Obstacle::Outrun,
    Obstacle::Anothers,
    Obstacle::Deleting,
];

impl Obstacle {
    /// Whether it means anything for this effect.
    pub(crate) fn can_meet(self, effect: Effect) -> bool {
        match self {
            Self::Forbidden | Self::Invalid => true,
            // What is created is there, or was refused. A mint that was answered without a credential is one without a
            // usable answer.
            Self::Ignored => !effect.creates(),
            // An event that is there already was written, and nobody guesses the name of a draft.
            Self::Outrun => {
                effect.place() == Where::Cluster && !matches!(effect, Effect::Warn | Effect::Draft)
            }
            Self::Anothers | Self::Deleting => effect.meets(self),
        }
    }

    /// Whether it is met by what is asked for, and not by what is there.
    pub(crate) fn is_an_answer(self) -> bool {
        match self {
            Self::Forbidden | Self::Invalid | Self::Ignored | Self::Outrun => true,
            Self::Anothers | Self::Deleting => false,
        }
    }

    pub(crate) fn at_the_api_server(self, creates: bool) -> Fault {
        match self {
            Self::Forbidden => Fault::Error(403),
            Self::Invalid => Fault::Error(422),
            Self::Ignored => Fault::Ignored,
            // Something has the name, and is gone when it is looked at.
            Self::Outrun if creates => Fault::Error(409),
            Self::Outrun => Fault::Conflict,
            Self::Anothers | Self::Deleting => Fault::Pass,
        }
    }

    pub(crate) fn at_the_issuer(self) -> testbed::issuer::Fault {
        match self {
            Self::Forbidden => testbed::issuer::Fault::Error(403),
            Self::Invalid => testbed::issuer::Fault::Error(422),
            Self::Ignored => testbed::issuer::Fault::Error(204),
            Self::Outrun => testbed::issuer::Fault::Error(409),
            Self::Anothers | Self::Deleting => testbed::issuer::Fault::Pass,
        }
    }

    /// More tries within half a minute than any back-off makes, and a few for what wakes us meanwhile. Whoever was outrun looks
    /// again a few times before that.
    pub(crate) fn most_tries(self) -> usize {
        match self {
            Self::Forbidden | Self::Invalid | Self::Ignored | Self::Anothers | Self::Deleting => 12,
            Self::Outrun => 40,
        }
    }

    /// How long it is waited for at most, in steps: a login that was refused is not tried again for ten minutes.
    pub(crate) fn longest_pause(self, place: Where, pause: i64) -> i64 {
        match (self, place) {
            (Self::Forbidden, Where::Issuer) => 301,
            (Self::Invalid | Self::Ignored | Self::Outrun | Self::Anothers | Self::Deleting, _)
            | (Self::Forbidden, Where::Cluster) => pause,
        }
    }

    /// Whose move it is, in a word or two of the condition.
    pub(crate) fn whose_move(self, place: Where) -> &'static str {
        match (self, place) {
            (Self::Forbidden, Where::Cluster) => "keyward rbac",
            (Self::Invalid, Where::Cluster) => "a rule of this cluster",
            (Self::Ignored, Where::Cluster) => "undoes it",
            (Self::Outrun, Where::Cluster) => "somebody else",
            (Self::Anothers, Where::Cluster) => SOMEBODY,
            (Self::Deleting, Where::Cluster) => KEEPER,
            (_, Where::Issuer) => "the issuer",
        }
    }
}
