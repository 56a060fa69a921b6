//! The token that every call must carry, where one is configured.

use std::sync::Arc;

use subtle::ConstantTimeEq;
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// Lets calls pass that carry the token; all, if there is none.
#[derive(Clone)]
pub(crate) struct Auth {
    token: Option<Arc<str>>,
}

impl Auth {
    pub(crate) fn new(token: Option<String>) -> Self {
        Self { token: token.map(Into::into) }
    }
}

impl Interceptor for Auth {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(token) = &self.token else { return Ok(request) };
        let Some(given) = request.metadata().get("authorization") else {
            return Err(Status::unauthenticated(
                "this control plane asks for a token: give it with --token-file FILE or MOONBRIDGE_TOKEN_FILE (nodes: token_file)",
            ));
        };
        let given = given.as_bytes();
        let given = match given.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"bearer ") => &given[7..],
            _ => return Err(Status::unauthenticated("authorization: expected \"Bearer TOKEN\"")),
        };
        if bool::from(given.ct_eq(token.as_bytes())) {
            Ok(request)
        } else {
            Err(Status::unauthenticated(
                "the token is another than this control plane's: check --token-file or MOONBRIDGE_TOKEN_FILE (nodes: token_file)",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(token: Option<&str>, header: Option<&'static str>) -> Result<(), String> {
        let mut request = Request::new(());
        if let Some(header) = header {
            request.metadata_mut().insert("authorization", header.parse().expect("a header"));
        }
        Auth::new(token.map(str::to_owned)).call(request).map(|_| ()).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn only_the_token_passes_and_refusals_say_which_option_to_give() {
        assert_eq!(call(None, None), Ok(()));
        assert_eq!(call(Some("secret"), Some("Bearer secret")), Ok(()));
        assert_eq!(call(Some("secret"), Some("bearer secret")), Ok(()));
        for wrong in [None, Some("Bearer secre"), Some("Bearer secrets"), Some("Bearer "), Some("")] {
            let refusal = call(Some("secret"), wrong).expect_err("refused");
            assert!(refusal.contains("token") || refusal.contains("Bearer"), "{refusal}");
            assert!(!refusal.contains("secret"), "{refusal}");
        }
        assert!(call(Some("secret"), None).expect_err("refused").contains("--token-file"));
    }
}
