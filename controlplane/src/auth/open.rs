//! The answer to a call with a token of the store: it ends when the token does.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::HeaderMap;

use crate::tokens::Holder;

/// An answer's body, for as long as the token that asked for it holds. What is ready goes out all the same: an answer that is made
/// is the caller's, even the one to its token's own revocation.
pub(super) struct WhileHeld {
    body: Body,
    ended: Pin<Box<dyn Future<Output = Status> + Send>>,
    over: bool,
}

impl WhileHeld {
    pub(super) fn new(body: Body, holder: Holder) -> Self {
        Self { body, ended: Box::pin(holder.ended()), over: false }
    }
}

impl http_body::Body for WhileHeld {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let Poll::Ready(status) = self.ended.as_mut().poll(cx) else { return Poll::Pending };
        // Whoever fills it is told that nobody takes more.
        (self.body, self.over) = (Body::empty(), true);
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http_body::Body as _;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A body that says these, and then waits or ends.
    struct Says {
        texts: VecDeque<&'static str>,
        ends: bool,
    }

    impl http_body::Body for Says {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match self.texts.pop_front() {
                Some(text) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(text))))),
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    async fn next(body: &mut WhileHeld) -> Option<Frame<Bytes>> {
        std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.map(|frame| frame.expect("no error"))
    }

    fn held(ends: bool, revoked: &CancellationToken) -> WhileHeld {
        let (body, revoked) = (Body::new(Says { texts: ["one", "two"].into(), ends }), revoked.clone());
        let ended = async move {
            revoked.cancelled().await;
            Status::unauthenticated("revoked")
        };
        WhileHeld { body, ended: Box::pin(ended), over: false }
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_token_but_what_is_ready_still_goes_out() {
        let revoked = CancellationToken::new();
        let mut body = held(false, &revoked);
        assert_eq!(next(&mut body).await.and_then(|frame| frame.into_data().ok()).as_deref(), Some(b"one".as_slice()));
        revoked.cancel();
        assert_eq!(next(&mut body).await.and_then(|frame| frame.into_data().ok()).as_deref(), Some(b"two".as_slice()));
        let trailers = next(&mut body).await.and_then(|frame| frame.into_trailers().ok()).expect("trailers");
        assert_eq!(trailers.get("grpc-status").map(|status| status.as_bytes()), Some(b"16".as_slice()));
        assert!(next(&mut body).await.is_none());
        assert!(body.is_end_stream());
    }

    #[tokio::test]
    async fn an_answer_that_is_made_comes_whole() {
        let revoked = CancellationToken::new();
        revoked.cancel();
        let mut body = held(true, &revoked);
        for text in ["one", "two"] {
            assert_eq!(next(&mut body).await.and_then(|frame| frame.into_data().ok()).as_deref(), Some(text.as_bytes()));
        }
        assert!(next(&mut body).await.is_none());
    }
}
