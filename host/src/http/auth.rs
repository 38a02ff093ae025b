//! Credentials: which tenant a request speaks for. Tokens are known by their hashes only.

use std::collections::HashMap;
use std::sync::Once;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};

use super::TurnedAway;
use crate::task::TenantId;

/// Finds the tenant of a request (I4).
pub struct Authenticator {
    tenants: HashMap<[u8; 32], TenantId>,
    /// Whose requests are without any token.
    local: TenantId,
    /// Whether it was said that a token means nothing here.
    warned: Once,
}

impl Authenticator {
    /// Tokens by their [`token_hash`]. With none at all every request is the local tenant's, which
    /// is safe on loopback only; whoever binds the listener sees to that.
    pub fn new(tenants: HashMap<[u8; 32], TenantId>) -> Authenticator {
        Authenticator {
            tenants,
            local: TenantId::local(),
            warned: Once::new(),
        }
    }

    pub(super) fn tenant(&self, headers: &HeaderMap) -> Result<&TenantId, TurnedAway> {
        if self.tenants.is_empty() {
            if headers.contains_key(AUTHORIZATION) {
                self.warned.call_once(|| {
                    tracing::warn!(
                        "a request came with a token, and this host has no tenants: it is served \
                         like one without, as `{}`; add the tenant with `longshore tenant add NAME` \
                         if it should be told apart",
                        self.local
                    );
                });
            }
            return Ok(&self.local);
        }
        // A lookup by hash tells an attacker's clock nothing about the token.
        bearer(headers)
            .and_then(|token| self.tenants.get(&token_hash(token)))
            .ok_or_else(|| {
                TurnedAway::new(
                    StatusCode::UNAUTHORIZED,
                    "a valid token is needed; send `Authorization: Bearer <token>` with a token \
                     from `longshore tenant add NAME`",
                )
            })
    }
}

/// How a token is known to the host: its SHA-256. Tokens are long and random, so that no slower
/// hash is needed.
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_speaks_for_its_tenant_and_nothing_else_does() {
        let team = TenantId::parse("team").unwrap();
        let tokens = Authenticator::new([(token_hash("s3cret"), team.clone())].into());
        let tenant = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            tokens.tenant(&headers).ok().cloned()
        };
        assert_eq!(tenant(&["Bearer s3cret"]), Some(team.clone()));
        assert_eq!(tenant(&["bearer  s3cret "]), Some(team));
        for wrong in [
            vec![],
            vec!["Bearer"],
            vec!["Bearer "],
            vec!["Bearer s3cre"],
            vec!["Bearer s3cret2"],
            vec!["Basic s3cret"],
            vec!["s3cret"],
            vec!["Bearer s3cret", "Bearer s3cret"],
        ] {
            assert_eq!(tenant(&wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn without_tokens_everyone_is_the_local_tenant() {
        let open = Authenticator::new(HashMap::new());
        assert_eq!(open.tenant(&HeaderMap::new()), Ok(&TenantId::local()));
    }
}
