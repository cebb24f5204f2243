//! What can stand in the way of an effect.

use testbed::apiserver::Fault;

use crate::scenes::{Effect, Where};

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
}

pub(crate) const OBSTACLES: [Obstacle; 4] = [
    Obstacle::Forbidden,
    Obstacle::Invalid,
    Obstacle::Ignored,
    Obstacle::Outrun,
];

impl Obstacle {
    /// Whether it means anything for this effect.
    pub(crate) fn can_meet(self, effect: Effect) -> bool {
        match self {
            Self::Forbidden | Self::Invalid => true,
            // What is created is there, or was refused; what is only asked for can be neither. An orphan whose end was accepted
            // is looked for again with the next list.
            Self::Ignored => !effect.creates() && !matches!(effect, Effect::Mint | Effect::Sweep),
            Self::Outrun => !effect.creates() && effect.place() == Where::Cluster,
        }
    }

    pub(crate) fn at_the_api_server(self) -> Fault {
        match self {
            Self::Forbidden => Fault::Error(403),
            Self::Invalid => Fault::Error(422),
            Self::Ignored => Fault::Ignored,
            Self::Outrun => Fault::Conflict,
        }
    }

    pub(crate) fn at_the_issuer(self) -> testbed::issuer::Fault {
        match self {
            Self::Forbidden => testbed::issuer::Fault::Error(403),
            Self::Invalid => testbed::issuer::Fault::Error(422),
            Self::Ignored => testbed::issuer::Fault::Error(204),
            Self::Outrun => testbed::issuer::Fault::Error(409),
        }
    }

    /// More tries within half a minute than any back-off makes, and a few for what wakes us meanwhile. Whoever was outrun looks
    /// again a few times before that.
    pub(crate) fn most_tries(self) -> usize {
        match self {
            Self::Forbidden | Self::Invalid | Self::Ignored => 12,
            Self::Outrun => 40,
        }
    }

    /// Whose move it is, in a word or two of the condition.
    pub(crate) fn whose_move(self, place: Where) -> &'static str {
        match (self, place) {
            (Self::Forbidden, Where::Cluster) => "keyward rbac",
            (Self::Invalid, Where::Cluster) => "a rule of this cluster",
            (Self::Ignored, Where::Cluster) => "undoes it",
            (Self::Outrun, Where::Cluster) => "somebody else",
            (_, Where::Issuer) => "the issuer",
        }
    }
}
