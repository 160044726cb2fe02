//! Tokens of API callers, and the sessions of browsers that log in with one.

use crate::answer::{Answer, Failure, success};
use crate::auth::{Caller, Door, Known, LIFE_MS, TokenError, Via, about, acted_by, digest_of, session_cookie};
use crate::body;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use goblin_api::{
    CreatedToken, LoginAnswer, LogoutAnswer, RevokedToken, Scope, Success, TOKEN_EXPIRY_MAX_SECONDS, TOKEN_NAME_MAX,
    TokenListing, TokensAnswer,
};
use goblin_ports::TokenScope;
use goblin_protocol::time::iso8601;
use serde_json::Value;
use std::sync::Arc;
use zeroize::Zeroizing;

pub(crate) async fn list(State(door): State<Arc<Door>>) -> Answer {
    let now = (door.clock)();
    let tokens = door.tokens.all();
    success(TokensAnswer {
        ok: Success,
        tokens: tokens.iter().map(|known| listing(known, now)).collect(),
    })
}

pub(crate) async fn create(State(door): State<Arc<Door>>, request: Request) -> Answer {
    let body = body::object(request).await?;
    let name = match body.get("name") {
        Some(Value::String(name)) => name.trim(),
        _ => "",
    };
    if name.is_empty() || name.chars().count() > TOKEN_NAME_MAX || name.chars().any(char::is_control) {
        return Err(Failure::invalid("token_name_invalid"));
    }
    let scope = body.get("scope").and_then(Value::as_str).and_then(TokenScope::of);
    let scope = scope.ok_or_else(|| Failure::invalid("token_scope_invalid"))?;
    let seconds = match body.get("expiresInSeconds") {
        None | Some(Value::Null) => None,
        Some(seconds) => match seconds.as_u64() {
            Some(seconds @ 1..=TOKEN_EXPIRY_MAX_SECONDS) => Some(seconds),
            _ => return Err(Failure::invalid("token_expiry_invalid")),
        },
    };
    let now = (door.clock)();
    let (known, secret) = door.tokens.create(name.to_owned(), scope, seconds, now).await?;
    about(&known.record.id);
    let created = CreatedToken {
        ok: Success,
        token: listing(&known, now),
        secret: secret.expose().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

pub(crate) async fn revoke(State(door): State<Arc<Door>>, path: Result<Path<String>, PathRejection>) -> Answer {
    let Path(id) = path.map_err(|_| Failure::not_found())?;
    let known = door.tokens.revoke(&id).await.map_err(TokenError::Port)?;
    let known = known.ok_or_else(Failure::not_found)?;
    door.sessions.end_of(&known.digest);
    success(RevokedToken {
        ok: Success,
        token: listing(&known, (door.clock)()),
    })
}

pub(crate) async fn log_in(State(door): State<Arc<Door>>, Extension(via): Extension<Via>, request: Request) -> Answer {
    let mut body = body::object(request).await?;
    let Some(Value::String(token)) = body.remove("token") else {
        return Err(Failure::invalid("invalid_request"));
    };
    let token = Zeroizing::new(token);
    let now = (door.clock)();
    let known = door.tokens.holding(&digest_of(token.trim()), now);
    let known = known.ok_or_else(Failure::unauthorized)?;
    acted_by(&known.record.id);
    let secret = Zeroizing::new(door.sessions.begin(known.digest, now)?);
    let answer = success(LoginAnswer {
        ok: Success,
        token: listing(&known, now),
        session_expires_at: iso8601(now.saturating_add(LIFE_MS)),
    })?;
    with_cookie(answer, &via, &secret, LIFE_MS / 1000)
}

pub(crate) async fn log_out(
    State(door): State<Arc<Door>>,
    Extension(via): Extension<Via>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    if let Caller::Token {
        session: Some(secret), ..
    } = &caller
    {
        door.sessions.end(secret);
    }
    with_cookie(success(LogoutAnswer { ok: Success })?, &via, "", 0)
}

fn with_cookie(mut answer: Response, via: &Via, secret: &str, seconds: i64) -> Answer {
    let secure = if via.is_tls() { "; Secure" } else { "" };
    let name = session_cookie(via.is_tls());
    let cookie = format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let mut cookie = HeaderValue::try_from(cookie).map_err(|_| Failure::internal())?;
    cookie.set_sensitive(true);
    answer.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(answer)
}

fn listing(known: &Known, now: i64) -> TokenListing {
    let record = &known.record;
    TokenListing {
        id: record.id.clone(),
        name: record.name.clone(),
        scope: match record.scope {
            TokenScope::Read => Scope::Read,
            TokenScope::Execute => Scope::Execute,
            TokenScope::Admin => Scope::Admin,
        },
        created_at: record.created_at.clone(),
        expires_at: record.expires_at.clone(),
        expired: known.has_expired(now),
    }
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Port(error) => goblin_controller::ControllerError::Port(error).into(),
            TokenError::Random => Self::internal(),
            TokenError::TooMany => Self::new(StatusCode::CONFLICT, "token_limit_reached"),
        }
    }
}
