//! Lists of tokens: what is left out, in which order, and page by page.

use std::cmp::Ordering;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;

use super::params::Reading;
use super::refusal::Refusal;
use super::reply::{Answer, Done};
use super::serve::Call;
use super::tokens::Token;

/// Words shorter than this are not searched for as parts of a name.
const SEARCHED_FROM: usize = 3;
const SORTS: [&str; 8] = [
    "created_asc",
    "created_desc",
    "expires_asc",
    "expires_desc",
    "last_used_asc",
    "last_used_desc",
    "name_asc",
    "name_desc",
];

impl Call<'_> {
    /// Those of the tokens that the query asks for. Its mistakes count before anything else is looked at.
    pub(super) fn listed(&self, tokens: impl Fn(&Token) -> bool) -> Answer {
        let wanted = self.wanted()?;
        let mut found: Vec<&Token> = self
            .state
            .tokens
            .values()
            .filter(|token| tokens(token) && wanted.fits(token, self))
            .collect();
        if let Some(sort) = &wanted.sort {
            found.sort_by(|a, b| in_order(sort, a, b));
        }
        let shown = found
            .into_iter()
            .map(|token| self.state.show(token, self.now));
        self.pages(shown.collect())
    }

    fn wanted(&self) -> Result<Wanted, Refusal> {
        let mut read = Reading::of(self.params);
        let state = read.one_of("state", &["active", "inactive"]);
        let wanted = Wanted {
            // Before it came, it was a parameter like any other that nobody knows: without effect.
            state: state.filter(|_| self.state.settings.has(17, 2)),
            revoked: read.yes_or_no("revoked"),
            search: read.optional("search"),
            created: (read.time("created_after"), read.time("created_before")),
            last_used: (read.time("last_used_after"), read.time("last_used_before")),
            expires: (read.date("expires_after"), read.date("expires_before")),
            sort: read.one_of("sort", &SORTS),
        };
        read.done()?;
        Ok(wanted)
    }

    /// The page that the query asks for, and where the others are.
    pub(super) fn pages<T: Serialize>(&self, all: Vec<T>) -> Answer {
        let mut read = Reading::of(self.params);
        let page: usize = read.number("page").unwrap_or(1);
        let per_page: usize = read.number("per_page").unwrap_or(20);
        read.done()?;
        if page == 0 {
            return Err(Refusal::parameter("page does not have a valid value"));
        }
        if per_page == 0 {
            return Err(Refusal::parameter("per_page does not have a valid value"));
        }
        let per_page = per_page.min(100);
        let total = all.len();
        let pages = total.div_ceil(per_page).max(1);
        let from = (page - 1).saturating_mul(per_page);
        let shown: Vec<T> = all.into_iter().skip(from).take(per_page).collect();
        let mut done = Done::new(200, &shown);
        let next = (page < pages).then_some(page + 1);
        let previous = (page > 1).then(|| page - 1);
        let text = |page: Option<usize>| page.map_or_else(String::new, |page| page.to_string());
        done.headers.extend([
            ("x-page", page.to_string()),
            ("x-per-page", per_page.to_string()),
            ("x-next-page", text(next)),
            ("x-prev-page", text(previous)),
        ]);
        let is_counted = total <= self.state.settings.count_up_to;
        if is_counted {
            done.headers.push(("x-total", total.to_string()));
            done.headers.push(("x-total-pages", pages.to_string()));
        }
        let links = [
            (previous, "prev"),
            (next, "next"),
            (Some(1), "first"),
            (is_counted.then_some(pages), "last"),
        ];
        let links = links.into_iter().filter_map(|(page, rel)| {
            let address = self.address_of(page?, per_page);
            Some(format!("<{address}>; rel=\"{rel}\""))
        });
        let links: Vec<String> = links.collect();
        done.headers.push(("link", links.join(", ")));
        Ok(done)
    }

    fn address_of(&self, page: usize, per_page: usize) -> String {
        let own = format!("http://{}", self.host);
        let host = self.state.settings.link_host.as_ref().unwrap_or(&own);
        let mut address = format!("{host}{}?page={page}&per_page={per_page}", self.path);
        for name in ["state", "revoked", "search", "sort", "active", "username"] {
            if let Some(value) = self.params.text(name) {
                let value = reqwest::Url::parse_with_params("http://query/", [(name, value)]);
                if let Some(query) = value.ok().as_ref().and_then(reqwest::Url::query) {
                    address = format!("{address}&{query}");
                }
            }
        }
        address
    }
}

type Between = (Option<Timestamp>, Option<Timestamp>);

struct Wanted {
    state: Option<String>,
    revoked: Option<bool>,
    search: Option<String>,
    created: Between,
    last_used: Between,
    expires: (Option<Date>, Option<Date>),
    sort: Option<String>,
}

impl Wanted {
    fn fits(&self, token: &Token, call: &Call<'_>) -> bool {
        let revoked = token.revoked_at.is_some();
        let state = match self.state.as_deref() {
            Some("active") => !revoked && token.expires.is_none_or(|date| date > call.today),
            // One that expires today is in neither of the two.
            Some("inactive") => revoked || token.expires.is_some_and(|date| date < call.today),
            Some(_) | None => true,
        };
        state
            && self.revoked.is_none_or(|wanted| wanted == revoked)
            && self
                .search
                .as_ref()
                .is_none_or(|text| is_found(text, &token.name))
            && is_between(self.created, Some(token.created))
            && is_between(self.last_used, token.last_used)
            && is_between(self.expires, token.expires)
    }
}

fn is_between<T: Ord + Copy>((after, before): (Option<T>, Option<T>), time: Option<T>) -> bool {
    after.is_none_or(|after| time.is_some_and(|time| time >= after))
        && before.is_none_or(|before| time.is_some_and(|time| time <= before))
}

/// Every word of some length must be part of the name, whatever its case; where all are short, they must be the name.
fn is_found(search: &str, name: &str) -> bool {
    let (search, name) = (search.to_lowercase(), name.to_lowercase());
    let mut words = search
        .split_whitespace()
        .filter(|word| word.chars().count() >= SEARCHED_FROM)
        .peekable();
    if words.peek().is_none() {
        return search.is_empty() || name == search;
    }
    words.all(|word| name.contains(word))
}

fn in_order(sort: &str, a: &Token, b: &Token) -> Ordering {
    let ascending = match sort.rsplit_once('_') {
        Some(("created", _)) => a.created.cmp(&b.created),
        Some(("expires", _)) => last_if_none(a.expires, b.expires),
        Some(("last_used", _)) => last_if_none(a.last_used, b.last_used),
        Some(_) | None => a.name.cmp(&b.name),
    };
    let ascending = ascending.then(a.id.cmp(&b.id));
    if sort.ends_with("_desc") {
        ascending.reverse()
    } else {
        ascending
    }
}

fn last_if_none<T: Ord>(a: Option<T>, b: Option<T>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_looks_for_every_long_word_in_any_case() {
        assert!(is_found("ROTATOR app", "token-rotator of the app"));
        assert!(!is_found("rotator other", "token-rotator of the app"));
        assert!(is_found("of rotator", "rotator"));
        assert!(!is_found("ab", "abc"));
        assert!(is_found("AB", "ab"));
    }
}
