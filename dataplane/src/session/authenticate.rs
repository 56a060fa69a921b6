//! Online mode: the client proves that it has the account whose name it gave, and the connection is encrypted.

use std::future::pending;
use std::net::IpAddr;

use moonbridge_crypto::login::verify_token;
use moonbridge_protocol::frame;
use moonbridge_protocol::login as packets;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::ENCRYPTION_RESPONSE;
use tokio::time::Instant;

use super::STRANGER_FRAME;
use super::login::Turned;
use crate::authenticate::{Authenticator, BadResponse, Profile, Refusal, SERVER_ID};
use crate::conn::Conn;
use crate::error::{Kind, Phase, SessionError, Side, Trouble};
use crate::timer::timeout_at;

/// Exchanges keys with the client, encrypts the connection, and asks the session server whose account has joined with that key.
pub(super) async fn prove(
    conn: &mut Conn,
    authenticator: &Authenticator,
    name: &str,
    address: IpAddr,
    deadline: Instant,
) -> Result<Profile, Turned> {
    let token = verify_token();
    let mut request = Vec::new();
    packets::put_encryption_request(&mut request, SERVER_ID, authenticator.public_der(), &token);
    conn.write(&request, deadline).await.map_err(trouble)?;
    // The client tells the session server first that it joins: this may take it a while.
    let frame = conn.frame(STRANGER_FRAME, deadline).await.map_err(trouble)?;
    if frame.id != ENCRYPTION_RESPONSE {
        return Err(trouble(Trouble::Unexpected { id: frame.id, expected: "Encryption Response" }));
    }
    let response = packets::read_encryption_response(&frame.payload)
        .map_err(|error| trouble(Trouble::Field { packet: "Encryption Response", error }))?;
    let secret = timeout_at(deadline, authenticator.open(response, token)).await.unwrap_or(Err(BadResponse::Unread));
    let secret = secret.map_err(|bad| wrong(conn, bad))?;
    // The client encrypts from its response on, and reads nothing else.
    conn.encrypt(&secret);
    let profile = tokio::select! {
        profile = authenticator.profile(name, &secret, address, deadline) => profile.map_err(|refusal| refused(&refusal, name))?,
        turned = interrupted(conn, Phase::Authenticate, deadline) => return Err(turned),
    };
    still_silent(conn)?;
    Ok(profile)
}

/// Waits until the client leaves, or sends what it must not: it has nothing to say between its Encryption Response (in offline
/// mode: its Login Start) and its Login Success.
pub(super) async fn interrupted(conn: &mut Conn, phase: Phase, deadline: Instant) -> Turned {
    let left = || Turned { text: None, error: SessionError::new(phase, Side::Player, Kind::Closed, "the player left") };
    if conn.is_encrypted() {
        return match conn.frame(STRANGER_FRAME, deadline).await {
            Ok(frame) if frame.id == ENCRYPTION_RESPONSE => misbehaved("Your client sent a second encryption response."),
            Ok(_) | Err(Trouble::Frame(_)) => garbled(),
            // Whoever is waited for has the same deadline, and more to say.
            Err(Trouble::TimedOut(_)) => pending().await,
            Err(_) => left(),
        };
    }
    // Without encryption what comes too early is kept, a little of it.
    while conn.inbox().len() < STRANGER_FRAME {
        match frame::first(conn.inbox(), STRANGER_FRAME) {
            Ok(Some(frame)) if frame.id == ENCRYPTION_RESPONSE && packets::read_encryption_response(frame.payload).is_ok() => {
                return unasked_response();
            }
            _ => {}
        }
        if matches!(conn.fill(STRANGER_FRAME - conn.inbox().len()).await, Ok(0) | Err(_)) {
            return left();
        }
    }
    pending().await
}

/// Nothing of an encrypted client's may be left when it gets its Login Success.
pub(super) fn still_silent(conn: &Conn) -> Result<(), Turned> {
    if conn.is_encrypted() && !conn.inbox().is_empty() { Err(garbled()) } else { Ok(()) }
}

fn trouble(trouble: Trouble) -> Turned {
    Turned::trouble(Phase::Authenticate, trouble)
}

/// An Encryption Response to nothing.
pub(super) fn unasked_response() -> Turned {
    misbehaved("Your client sent an encryption response that it was not asked for.")
}

fn misbehaved(text: &str) -> Turned {
    Turned::new(Phase::Authenticate, Side::Player, Kind::Malformed, text)
}

/// A client that does not encrypt, or with another secret: what it sends decrypts to anything.
fn garbled() -> Turned {
    misbehaved("What your client sends cannot be read: it is not encrypted as it should be.")
}

/// The response of the client is not one to this request.
fn wrong(conn: &mut Conn, bad: BadResponse) -> Turned {
    match bad {
        BadResponse::Token(secret) => {
            if let Some(secret) = secret {
                conn.encrypt(&secret);
            }
            misbehaved("Your client's encryption response is wrong: it does not hold the verify token that it was sent.")
        }
        BadResponse::Secret => misbehaved("Your client's encryption response is wrong: its shared secret does not have 16 bytes."),
        BadResponse::Unread => {
            let text = "This proxy is too busy to log you in. Please join again.";
            Turned::new(Phase::Authenticate, Side::Control, Kind::Unavailable, text)
        }
    }
}

/// Nobody vouches for the player.
fn refused(refusal: &Refusal, name: &str) -> Turned {
    let error = SessionError::new(Phase::Authenticate, Side::SessionServer, refusal.kind(), format_args!("{name}: {refusal}"));
    Turned { text: Some(Text::legacy(&refusal.told(name))), error }
}
