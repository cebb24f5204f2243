//! What an administrator of the store asks for, one request each, and what the answers mean.

use std::sync::Arc;

use lifecycle::TroubleKind;
use reqwest::{Method, StatusCode};

use super::said::{self, Asked, refusal};
use super::sign::Login;
use super::store::{Query, Store};
use super::wire::{Account, Key, User};
use crate::SourceError;
use crate::http::Reply;

const USER: &str = "user";
const ACCOUNT: &str = "account";

/// A login with the capabilities `users`, `accounts` and `buckets` at one store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Administrator {
    store: Arc<Store>,
    login: Arc<Login>,
}

/// What is to become of a key that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    On,
    Off,
}

impl Administrator {
    pub fn new(store: Arc<Store>, login: Login) -> Self {
        Self {
            store,
            login: Arc::new(login),
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Its access key: no secret, and what tells it from others.
    pub(super) fn login_name(&self) -> &str {
        &self.login.access_key
    }

    async fn ask(
        &self,
        act: &str,
        method: Method,
        what: &str,
        query: &Query,
    ) -> Result<Reply, SourceError> {
        self.store
            .admin_ops(&self.login, act, method, what, query)
            .await
    }

    /// The user of this uid; `None`: there is none.
    pub(super) async fn user(&self, act: &str, uid: &str) -> Result<Option<User>, SourceError> {
        let query = Query::of("uid", uid);
        let reply = self.ask(act, Method::GET, USER, &query).await?;
        if said::is(&reply, StatusCode::NOT_FOUND, "NoSuchUser") {
            return Ok(None);
        }
        let user = the_user(&reply, Asked::ReadUser)?;
        if user.uid() == uid {
            Ok(Some(user))
        } else {
            Err(reply.error(TroubleKind::Unexpected, ANOTHER))
        }
    }

    /// Makes a user without a key. *If the reply is lost:* it may exist, and is found by its uid and its tag.
    pub(super) async fn create_user(&self, act: &str, query: Query) -> Result<User, SourceError> {
        let query = query.with("generate-key", "false");
        let reply = self.ask(act, Method::PUT, USER, &query).await?;
        the_user(&reply, Asked::CreateUser)
    }

    pub(super) async fn change_user(&self, act: &str, query: &Query) -> Result<User, SourceError> {
        let reply = self.ask(act, Method::POST, USER, query).await?;
        the_user(&reply, Asked::ChangeUser)
    }

    /// Buckets that it owns keep it from being deleted. One that is gone already counts as deleted.
    pub(super) async fn delete_user(&self, act: &str, uid: &str) -> Result<(), SourceError> {
        let query = Query::of("uid", uid);
        let reply = self.ask(act, Method::DELETE, USER, &query).await?;
        let gone = said::is(&reply, StatusCode::NOT_FOUND, "NoSuchUser");
        done(&reply, gone, Asked::DeleteUser)
    }

    /// Grants (`PUT`) or takes away (`DELETE`) capabilities.
    pub(super) async fn change_capabilities(
        &self,
        act: &str,
        method: Method,
        uid: &str,
        caps: &str,
    ) -> Result<(), SourceError> {
        let query = Query::part("caps").with("uid", uid).with("user-caps", caps);
        let reply = self.ask(act, method, USER, &query).await?;
        done(&reply, false, Asked::ChangeUser)
    }

    /// `query` says whose, which and how much.
    pub(super) async fn set_user_quota(&self, act: &str, query: &Query) -> Result<(), SourceError> {
        let reply = self.ask(act, Method::PUT, USER, query).await?;
        done(&reply, false, Asked::ChangeUser)
    }

    /// Makes a key whose secret key the gateway chooses. Of one that is there it would choose another secret key: whoever
    /// asks looked before.
    ///
    /// *If the reply is lost:* it may exist, and can be read.
    pub(super) async fn create_key(
        &self,
        act: &str,
        uid: &str,
        access_key: &str,
    ) -> Result<Key, SourceError> {
        let query = Query::part("key")
            .with("uid", uid)
            .with("access-key", access_key)
            .with("generate-key", "true");
        self.put_key(act, &query, uid, access_key).await
    }

    /// Deactivates a key, or activates it again. Its secret key stays the same: without saying so, it would not.
    pub(super) async fn switch_key(
        &self,
        act: &str,
        uid: &str,
        access_key: &str,
        switch: Switch,
    ) -> Result<Key, SourceError> {
        let active = match switch {
            Switch::On => "true",
            Switch::Off => "false",
        };
        let query = Query::part("key")
            .with("uid", uid)
            .with("access-key", access_key)
            .with("generate-key", "false")
            .with("active", active);
        self.put_key(act, &query, uid, access_key).await
    }

    async fn put_key(
        &self,
        act: &str,
        query: &Query,
        uid: &str,
        access_key: &str,
    ) -> Result<Key, SourceError> {
        let reply = self.ask(act, Method::PUT, USER, query).await?;
        if reply.status() != StatusCode::OK {
            return Err(refusal(&reply, Asked::ChangeKey));
        }
        let keys: Vec<Key> = reply.json()?;
        let is_it = |key: &Key| key.access_key == access_key && key.user == uid;
        keys.into_iter().find(is_it).ok_or_else(|| {
            let detail = "the key that was asked for is not among those of the answer";
            reply.error(TroubleKind::Unexpected, detail)
        })
    }

    /// Ends a key; one that is gone already counts as ended. A gateway says the same of a key that is not there as of a login
    /// that it does not know: then the user is looked at with the same login.
    pub(super) async fn delete_key(
        &self,
        act: &str,
        uid: &str,
        access_key: &str,
    ) -> Result<(), SourceError> {
        let query = Query::part("key")
            .with("uid", uid)
            .with("access-key", access_key);
        let reply = self.ask(act, Method::DELETE, USER, &query).await?;
        if said::is(&reply, StatusCode::FORBIDDEN, "InvalidAccessKeyId") {
            let user = self.user(act, uid).await?;
            return match user.as_ref().and_then(|user| user.key(access_key)) {
                None => Ok(()),
                Some(_) => Err(reply.error(
                    TroubleKind::Unexpected,
                    "the gateway does not find the key to delete it, and then shows it",
                )),
            };
        }
        let gone = said::is(&reply, StatusCode::NOT_FOUND, "NoSuchUser");
        done(&reply, gone, Asked::DeleteKey)
    }

    /// The account of this id; `None`: there is none.
    pub(super) async fn account(
        &self,
        act: &str,
        id: &str,
    ) -> Result<Option<Account>, SourceError> {
        let query = Query::of("id", id);
        let reply = self.ask(act, Method::GET, ACCOUNT, &query).await?;
        if said::is(&reply, StatusCode::NOT_FOUND, "NoSuchKey") {
            return Ok(None);
        }
        the_account(&reply, id, Asked::ReadAccount).map(Some)
    }

    /// *If the reply is lost:* it may exist, and is found by its id.
    pub(super) async fn create_account(
        &self,
        act: &str,
        id: &str,
        name: &str,
    ) -> Result<Account, SourceError> {
        let query = Query::of("id", id).with("name", name);
        let reply = self.ask(act, Method::POST, ACCOUNT, &query).await?;
        the_account(&reply, id, Asked::CreateAccount)
    }

    pub(super) async fn change_account(
        &self,
        act: &str,
        id: &str,
        query: &Query,
    ) -> Result<Account, SourceError> {
        let reply = self.ask(act, Method::PUT, ACCOUNT, query).await?;
        the_account(&reply, id, Asked::ChangeAccount)
    }

    /// Members of any kind keep it from being deleted. One that is gone already counts as deleted.
    pub(super) async fn delete_account(&self, act: &str, id: &str) -> Result<(), SourceError> {
        let query = Query::of("id", id);
        let reply = self.ask(act, Method::DELETE, ACCOUNT, &query).await?;
        let gone = said::is(&reply, StatusCode::NOT_FOUND, "NoSuchKey");
        done(&reply, gone, Asked::DeleteAccount)
    }

    /// How many buckets a user (`uid`) or an account (`account-id`) has.
    pub(super) async fn count_buckets(
        &self,
        act: &str,
        owner: &Query,
    ) -> Result<usize, SourceError> {
        let reply = self.ask(act, Method::GET, "bucket", owner).await?;
        match reply.status() {
            // Of a user that is not there not even an empty list is shown.
            StatusCode::OK if reply.body().is_empty() => Ok(0),
            StatusCode::OK => Ok(reply.json::<Vec<String>>()?.len()),
            _ => Err(refusal(&reply, Asked::ListBuckets)),
        }
    }
}

const ANOTHER: &str = "another one came back than was asked for";

fn the_user(reply: &Reply, asked: Asked) -> Result<User, SourceError> {
    match reply.status() {
        StatusCode::OK => reply.json(),
        _ => Err(refusal(reply, asked)),
    }
}

fn the_account(reply: &Reply, id: &str, asked: Asked) -> Result<Account, SourceError> {
    if reply.status() != StatusCode::OK {
        return Err(refusal(reply, asked));
    }
    let account: Account = reply.json()?;
    if account.id == id {
        Ok(account)
    } else {
        Err(reply.error(TroubleKind::Unexpected, ANOTHER))
    }
}

fn done(reply: &Reply, gone_already: bool, asked: Asked) -> Result<(), SourceError> {
    if gone_already || reply.status() == StatusCode::OK {
        Ok(())
    } else {
        Err(refusal(reply, asked))
    }
}
