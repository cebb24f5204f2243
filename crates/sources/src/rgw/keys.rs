//! Keys of one user of a store.

use async_trait::async_trait;
use jiff::SignedDuration;
use lifecycle::{Issued, IssuedId, Issuer, Mark, Minting, Owner, TroubleKind, Verdict};

use super::administrator::{Administrator, Switch};
use super::id::{Name, issued_id};
use super::sign::Login;
use super::tried::Tried;
use super::wire::{Key, User};
use super::{ACCESS_KEY, SECRET_KEY};
use crate::{
    Borne, CORRECT_OR_DELETE, Minted, Order, Proof, SecretValue, Source, SourceError, Values,
    listed,
};

/// Key of the address at which a consumer finds the store; not secret.
pub const ENDPOINT: &str = "Endpoint";

/// What this issuer can do.
pub const KEYS: Issuer = Issuer {
    minting: Minting::ReadBack,
    lists: true,
    revokes: true,
    tells_use: false,
};

/// The keys of one user. Other keys that the user has are never touched.
#[derive(Debug)]
pub struct UserKeys {
    admin: Administrator,
    uid: String,
    /// What the user must bear, so that a resource gets no keys of a user that is not its own.
    tag: String,
    /// What a consumer needs beside the two keys, such as [`ENDPOINT`].
    beside: Values,
}

impl UserKeys {
    pub fn new(admin: Administrator, uid: &str, tag: &str, beside: Values) -> Self {
        Self {
            admin,
            uid: uid.to_owned(),
            tag: tag.to_owned(),
            beside,
        }
    }

    /// Deactivates a key: no gateway knows it any more, and it can be brought back.
    ///
    /// *Guarantees:* it bears the mark. *Safe to repeat because* it is as it was then.
    pub async fn deactivate(&self, mark: &Mark, id: &IssuedId) -> Result<(), SourceError> {
        self.switch("deactivating a key", mark, id, Switch::Off)
            .await
    }

    /// Brings a deactivated key back, with the same secret key.
    pub async fn activate(&self, mark: &Mark, id: &IssuedId) -> Result<(), SourceError> {
        self.switch("activating a key again", mark, id, Switch::On)
            .await
    }

    /// Switching a key that is not there would make one: it is looked at first. Between the two it can be deleted by somebody
    /// else; then the gateway refuses, since it is not told to make a secret key.
    async fn switch(
        &self,
        what: &str,
        mark: &Mark,
        id: &IssuedId,
        switch: Switch,
    ) -> Result<(), SourceError> {
        let act = self.act(what);
        let name = Name::checked(&act, id)?;
        let user = self.own_user(&act).await?;
        let Some(key) = user.key(name.access_key) else {
            let detail = "the user has no such key";
            return Err(SourceError::new(act, TroubleKind::Rejected, detail));
        };
        if Proof::by(mark).borne_by(&key.access_key) != Borne::This {
            return Err(Self::left_alone(&act));
        }
        let wanted = switch == Switch::On;
        if key.active == wanted {
            return Ok(());
        }
        let switched = self
            .admin
            .switch_key(&act, &self.uid, &key.access_key, switch)
            .await?;
        if switched.active == wanted && key.has_secret(&switched.secret()) {
            return Ok(());
        }
        let detail = "the gateway did not do it; keys can be deactivated with Ceph 20.2 and newer";
        Err(SourceError::new(act, TroubleKind::Rejected, detail))
    }

    fn act(&self, what: &str) -> String {
        format!("{what} of user {} of the object store", self.uid)
    }

    async fn user(&self, act: &str) -> Result<Option<User>, SourceError> {
        self.admin.user(act, &self.uid).await
    }

    /// The user, if it is the resource's own.
    async fn own_user(&self, act: &str) -> Result<User, SourceError> {
        let rejected = |detail: &str| SourceError::new(act, TroubleKind::Rejected, detail);
        match self.user(act).await? {
            None => Err(rejected("the store has no such user")),
            Some(user) if !user.bears(&self.tag) => Err(rejected(
                "the user is not this resource's; it gets no key of somebody else's user",
            )),
            Some(user) => Ok(user),
        }
    }

    fn minted(&self, key: &Key) -> Minted {
        self.admin.store().note_known_here(&key.access_key);
        let access_key = SecretValue::new(key.access_key.as_bytes());
        Minted {
            id: issued_id(&key.access_key, self.admin.store().address()),
            values: self
                .beside
                .clone()
                .with(ACCESS_KEY, access_key)
                .with(SECRET_KEY, key.secret()),
            expires: None,
        }
    }

    fn left_alone(act: &str) -> SourceError {
        let detail = format!(
            "it was not touched: its access key is not the mark of this version, so that it may be anybody's; {CORRECT_OR_DELETE}"
        );
        SourceError::new(act, TroubleKind::Rejected, detail)
    }

    /// The store does not know this key. That counts only of the store that made it: of another address, it is the same only
    /// if it was seen to know the key.
    fn must_be_known_here(&self, act: &str, name: &Name<'_>) -> Result<(), SourceError> {
        let store = self.admin.store();
        match name.made_elsewhere_than(store.address()) {
            Some(_) if !store.was_known_here(name.access_key) => Err(SourceError::new(
                act,
                TroubleKind::Rejected,
                "it was made at another object store, and this one does not know it; point the resource back to that",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether these values are this key's.
    fn is_of(values: Option<&Values>, key: &Key) -> bool {
        let login = values.and_then(Login::in_values);
        login.is_some_and(|login| {
            login.access_key == key.access_key && key.has_secret(&login.secret_key)
        })
    }
}

#[async_trait]
impl Source for UserKeys {
    fn issuer(&self) -> Issuer {
        KEYS
    }

    fn place(&self) -> &str {
        self.admin.store().place()
    }

    fn login_name(&self) -> &str {
        self.admin.login_name()
    }

    async fn list(&self, owner: &Owner, recorded: &[Issued]) -> Result<Vec<Issued>, SourceError> {
        let user = self.user(&self.act("listing keys")).await?;
        let keys = user.iter().flat_map(|user| &user.keys);
        let store = self.admin.store();
        let issued = keys.filter_map(|key| {
            let known = recorded
                .iter()
                .find(|known| Name::of(&known.id).access_key == key.access_key);
            let here = || issued_id(&key.access_key, store.address());
            let issued = listed(owner, &key.access_key, known, here)?;
            store.note_known_here(&key.access_key);
            Some(issued)
        });
        Ok(issued.collect())
    }

    /// A key that is there already is read, and never asked for again: that would change its secret key.
    async fn mint(&self, order: &Order) -> Result<Minted, SourceError> {
        let act = self.act("making a key");
        let user = self.own_user(&act).await?;
        let access_key = order.mark.to_string();
        if let Some(key) = user.key(&access_key) {
            return Ok(self.minted(key));
        }
        let key = self.admin.create_key(&act, &self.uid, &access_key).await?;
        Ok(self.minted(&key))
    }

    async fn read_back(&self, mark: &Mark) -> Result<Option<Minted>, SourceError> {
        let user = self.user(&self.act("reading a key")).await?;
        let Some(user) = user.filter(|user| user.bears(&self.tag)) else {
            return Ok(None);
        };
        Ok(user.key(&mark.to_string()).map(|key| self.minted(key)))
    }

    async fn verify(&self, values: &Values) -> Result<Verdict, SourceError> {
        let Some(login) = Login::in_values(values) else {
            return Ok(Verdict::Refused);
        };
        let act = self.act("trying a key");
        let answers = self.admin.store().try_everywhere(&act, &login).await?;
        let refused = |answer: &Tried| match answer {
            Tried::Unknown | Tried::WrongSecret | Tried::Suspended => true,
            Tried::LetIn | Tried::MayNotLook => false,
        };
        if answers.iter().any(refused) {
            return Ok(Verdict::Refused);
        }
        if answers.iter().all(|answer| *answer == Tried::LetIn) {
            return Ok(Verdict::Works);
        }
        // A user without rights may not look; nor may a key that belongs to nobody.
        let user = self.user(&act).await?;
        let key = user.as_ref().and_then(|user| user.key(&login.access_key));
        let is_it = key.is_some_and(|key| key.active && key.has_secret(&login.secret_key));
        Ok(if is_it {
            Verdict::Works
        } else {
            Verdict::Refused
        })
    }

    async fn verify_as(&self, id: &IssuedId, values: &Values) -> Result<Verdict, SourceError> {
        let access_key = values.get(ACCESS_KEY).and_then(SecretValue::expose_str);
        if access_key != Some(Name::of(id).access_key) {
            return Ok(Verdict::Refused);
        }
        self.verify(values).await
    }

    /// *If it dies here:* it may be deleted. *Safe to repeat because* one that is gone already counts as ended.
    async fn revoke(&self, proof: &Proof<'_>, id: &IssuedId) -> Result<(), SourceError> {
        let act = self.act("deleting a key");
        let name = Name::checked(&act, id)?;
        let user = self.user(&act).await?;
        let Some(key) = user.as_ref().and_then(|user| user.key(name.access_key)) else {
            return self.must_be_known_here(&act, &name);
        };
        let proved = match proof.borne_by(&key.access_key) {
            Borne::This => true,
            Borne::Another => false,
            Borne::Nothing => proof.recorded && Self::is_of(proof.values, key),
        };
        if !proved {
            return Err(Self::left_alone(&act));
        }
        self.admin.store().note_known_here(&key.access_key);
        self.admin
            .delete_key(&act, &self.uid, &key.access_key)
            .await
    }

    /// Not listed, and unknown at every gateway. One that is deactivated can be brought back: it is not gone.
    async fn gone(&self, id: &IssuedId, _values: Option<&Values>) -> Result<bool, SourceError> {
        let act = self.act("looking for a key");
        let name = Name::checked(&act, id)?;
        let user = self.user(&act).await?;
        if user.is_some_and(|user| user.key(name.access_key).is_some()) {
            return Ok(false);
        }
        self.must_be_known_here(&act, &name)?;
        self.admin
            .store()
            .is_unknown_everywhere(&act, name.access_key)
            .await
    }

    fn skew(&self) -> Option<SignedDuration> {
        self.admin.store().skew()
    }
}
