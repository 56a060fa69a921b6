//! `moonbridge token`.

use moonbridge_proto::v1;
use serde_json::{Value, json};

use super::{Session, role_name, text_or_null};
use crate::args::{Format, RoleArg, TokenVerb};
use crate::control::{PAGE, pages, refused};
use crate::failure::Outcome;
use crate::output::{self, Listing};
use crate::time::{now, rfc3339};

const COLUMNS: &[&str] = &["name", "role", "created", "created_by", "expires", "expired"];
const CREATED: &[&str] = &["name", "role", "expires", "token"];

/// Runs a verb.
pub(crate) async fn run(session: Session, verb: TokenVerb) -> Outcome {
    match verb {
        TokenVerb::Create { name, role, lifetime } => create(session, name, role, lifetime).await,
        TokenVerb::List => list(session).await,
        TokenVerb::Revoke { name } => revoke(session, name).await,
    }
}

async fn create(mut session: Session, name: String, role: RoleArg, lifetime: Option<u64>) -> Outcome {
    let role = match role {
        RoleArg::Viewer => v1::Role::Viewer,
        RoleArg::Operator => v1::Role::Operator,
        RoleArg::Admin => v1::Role::Admin,
    };
    let request = v1::CreateTokenRequest { name, role: role.into(), lifetime_seconds: lifetime.unwrap_or(0) };
    let answer = session.admin.create_token(request).await.map_err(refused)?.into_inner();
    let token = answer.token.unwrap_or_default();
    let (role, expires) = (role_name(token.role), rfc3339(token.expires_unix_ms));
    if session.output != Format::Table {
        let mut thing = Listing::new(CREATED);
        thing.push([json!(token.name), json!(role), json!(expires), json!(answer.secret)]);
        return thing.print_one(session.output);
    }
    // Alone on stdout: the output is the file.
    output::line(&answer.secret)?;
    let until = expires.map_or_else(|| "until it is revoked".to_owned(), |expires| format!("until {expires}"));
    output::note(&format!(
        "token {} ({role}) holds {until}; in a file it is for --token-file or MOONBRIDGE_TOKEN_FILE. It is not shown again",
        token.name
    ));
    Ok(())
}

async fn list(session: Session) -> Outcome {
    let admin = session.admin.clone();
    let tokens = pages(async |page_token| {
        let request = v1::ListTokensRequest { page_size: PAGE, page_token };
        let page = admin.clone().list_tokens(request).await?.into_inner();
        Ok((page.tokens, page.next_page_token))
    })
    .await?;
    let mut listing = Listing::new(COLUMNS);
    for token in &tokens {
        listing.push(row(token, now()));
    }
    listing.print(session.output, "no tokens; make one with `moonbridge token create NAME --role viewer|operator|admin > FILE`")
}

fn row(token: &v1::AdminToken, now: i64) -> [Value; 6] {
    let expired = token.expires_unix_ms != 0 && token.expires_unix_ms <= now.saturating_mul(1_000);
    [
        json!(token.name),
        json!(role_name(token.role)),
        json!(rfc3339(token.created_unix_ms)),
        text_or_null(token.created_by.as_str()),
        json!(rfc3339(token.expires_unix_ms)),
        json!(expired),
    ]
}

async fn revoke(mut session: Session, name: String) -> Outcome {
    session.admin.revoke_token(v1::RevokeTokenRequest { name: name.clone() }).await.map_err(refused)?;
    let mut thing = Listing::new(&["name", "revoked"]);
    thing.push([json!(name), json!(true)]);
    session.done(&format!("token {name} is revoked"), &thing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_token_is_listed_as_such() {
        let token = |expires_unix_ms| v1::AdminToken { name: "ci".to_owned(), role: 1, expires_unix_ms, ..v1::AdminToken::default() };
        for (expires, expired) in [(0, false), (999, true), (1_000, true), (1_001, false)] {
            assert_eq!(row(&token(expires), 1)[5], json!(expired), "{expires}");
        }
        assert_eq!(row(&token(0), 1)[..2], [json!("ci"), json!("viewer")]);
        assert_eq!(row(&token(0), 1)[4], Value::Null);
    }
}
