//! The requests about tokens of a project or group, one by one, and what their answers mean.

use jiff::civil::Date;
use lifecycle::TroubleKind;
use reqwest::header::HeaderName;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::resource::ResourceTokens;
use super::wire::{self, Token};
use super::{TokenWish, words};
use crate::http::Reply;
use crate::{Order, SourceError};

const NEXT_PAGE: HeaderName = HeaderName::from_static("x-next-page");
const PER_PAGE: usize = 100;
/// Ten thousand tokens with our name in one project are no longer a list to be believed.
const PAGES: u32 = 100;

pub(super) enum Found {
    Is(Box<Token>, Reply),
    Gone,
}

impl ResourceTokens {
    pub(super) async fn page(
        &self,
        search: &str,
        page: u32,
    ) -> Result<(Vec<Token>, Reply), SourceError> {
        let what = "listing access tokens";
        let (number, size) = (page.to_string(), PER_PAGE.to_string());
        // Without the filter by state, which leaves out what expires today. Old servers do not search: all is compared.
        let query = [
            ("search", search),
            ("page", number.as_str()),
            ("per_page", size.as_str()),
        ];
        let request = self
            .asks(what, Method::GET, &["access_tokens"])?
            .query(query);
        let reply = request.send().await?;
        match reply.status() {
            StatusCode::OK => Ok((reply.json()?, reply)),
            StatusCode::NOT_FOUND => Err(words::no_home(&reply, self.home.kind())),
            _ => Err(words::refusal(&reply)),
        }
    }

    pub(super) async fn find(&self, what: &str, id: u64) -> Result<Found, SourceError> {
        let text = id.to_string();
        let request = self.asks(what, Method::GET, &["access_tokens", &text])?;
        let reply = request.send().await?;
        match reply.status() {
            StatusCode::OK => {
                let token: Token = reply.json()?;
                if token.id == id {
                    Ok(Found::Is(Box::new(token), reply))
                } else {
                    Err(reply.error(
                        TroubleKind::Unexpected,
                        "another token came back than was asked for",
                    ))
                }
            }
            StatusCode::NOT_FOUND if wire::says_no_such_token(&reply) => Ok(Found::Gone),
            StatusCode::NOT_FOUND => Err(words::no_home(&reply, self.home.kind())),
            _ => Err(words::refusal(&reply)),
        }
    }

    /// As [`Self::find`]. Where the whole project is said not to be there, it is asked for too.
    pub(super) async fn find_or_settle(&self, what: &str, id: u64) -> Result<Found, SourceError> {
        match self.find(what, id).await {
            Err(error) if error.kind == TroubleKind::Rejected => {
                self.must_see_home(what).await?;
                self.find(what, id).await
            }
            found => found,
        }
    }

    /// Deletes it with the API token. "Not found" counts as done only where it is the token that was not found.
    pub(super) async fn delete(&self, what: &str, id: u64) -> Result<(), SourceError> {
        let text = id.to_string();
        let request = self.asks(what, Method::DELETE, &["access_tokens", &text])?;
        let reply = request.send().await?;
        match reply.status() {
            StatusCode::NO_CONTENT => Ok(()),
            StatusCode::NOT_FOUND if wire::says_no_such_token(&reply) => Ok(()),
            StatusCode::NOT_FOUND => {
                self.must_see_home(what).await?;
                self.settle(what, id, &reply).await
            }
            StatusCode::BAD_REQUEST => Err(reply.error(
                TroubleKind::Rejected,
                format!(
                    "the API token's user may not end tokens of this {}",
                    self.home.kind()
                ),
            )),
            _ => Err(words::not_ended(&reply)),
        }
    }

    /// The whole project was said not to be there. Perhaps only we do not see it: then its tokens may well be alive.
    async fn must_see_home(&self, what: &str) -> Result<(), SourceError> {
        let home = self.asks(what, Method::GET, &[])?.send().await?;
        match home.status() {
            StatusCode::OK => Ok(()),
            StatusCode::NOT_FOUND => Err(home.error(
                TroubleKind::Rejected,
                format!(
                    "GitLab shows no such {} to the API token (404): it was removed, and the token with it, or the API token lost sight of it and the token is alive",
                    self.home.kind()
                ),
            )),
            _ => Err(words::refusal(&home)),
        }
    }

    /// The project is there, although it was said not to be: the token is looked for once more.
    async fn settle(&self, what: &str, id: u64, reply: &Reply) -> Result<(), SourceError> {
        match self.find(what, id).await? {
            Found::Gone => Ok(()),
            Found::Is(token, reply) if !token.is_alive(&reply) => Ok(()),
            Found::Is(..) => Err(reply.error(
                TroubleKind::Unexpected,
                "GitLab does not find where the token lives, and then shows it alive",
            )),
        }
    }

    pub(super) async fn create(
        &self,
        what: &str,
        order: &Order,
        wish: &TokenWish,
        expires: Date,
    ) -> Result<Reply, SourceError> {
        let description: String = wish.description.chars().take(255).collect();
        let body = json!({
            "name": order.mark.to_string(),
            "description": description,
            "scopes": wish.scopes,
            "access_level": wish.access_level,
            "expires_at": expires.to_string(),
        });
        let request = self.asks(what, Method::POST, &["access_tokens"])?;
        request.json(&body).send().await
    }
}

/// The page after this one; 0 is none. GitLab's `Link` names the host it is configured with, which need not be the one
/// we may speak to.
pub(super) fn next_page(reply: &Reply, page: u32, tokens: usize) -> Result<u32, SourceError> {
    let odd = |detail: &str| Err(reply.error(TroubleKind::Unexpected, detail));
    let next = match reply.header(&NEXT_PAGE).map(str::trim) {
        Some("") => 0,
        Some(text) => match text.parse() {
            Ok(next) if wire::is_short_number(text) && next > page => next,
            Ok(_) | Err(_) => return odd("the list's next page makes no sense"),
        },
        // Something on the way removed the header: a full page may have another after it.
        None if tokens >= PER_PAGE => page + 1,
        None => 0,
    };
    if next > PAGES {
        return odd("the list has too many pages to be believed");
    }
    Ok(next)
}
