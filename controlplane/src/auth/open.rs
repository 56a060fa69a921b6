//! The answer to a call with a token of the store: it ends when the token does.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::HeaderMap;

use crate::tokens::Holder;

/// An answer's body, for as long as the token that asked for it holds. A single answer that is made is the caller's all the same, even
/// the one to its token's own revocation: of what is ready then the first piece goes out, and the end.
pub(super) struct WhileHeld {
    body: Body,
    ended: Pin<Box<dyn Future<Output = Status> + Send>>,
    /// Why the token is worth nothing any more.
    refusal: Option<Status>,
    has_begun: bool,
    over: bool,
}

impl WhileHeld {
    pub(super) fn new(body: Body, holder: Holder) -> Self {
        Self { body, ended: Box::pin(holder.ended()), refusal: None, has_begun: false, over: false }
    }
}

impl http_body::Body for WhileHeld {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.over {
            return Poll::Ready(None);
        }
        // Looked at first: a stream that always has something ready would never end otherwise.
        if self.refusal.is_none()
            && let Poll::Ready(refusal) = self.ended.as_mut().poll(cx)
        {
            self.refusal = Some(refusal);
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let is_more = match &frame {
            Poll::Pending => true,
            Poll::Ready(Some(Ok(frame))) => frame.is_data() && std::mem::replace(&mut self.has_begun, true),
            Poll::Ready(None | Some(Err(_))) => false,
        };
        let Some(refusal) = self.refusal.take_if(|_| is_more) else { return frame };
        // Whoever fills it is told that nobody takes more.
        (self.body, self.over) = (Body::empty(), true);
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(refusal.add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
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

    /// A body that has all of these ready, and then waits or ends.
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

    async fn next_text(body: &mut WhileHeld) -> Option<Bytes> {
        next(body).await.and_then(|frame| frame.into_data().ok())
    }

    async fn is_refused(body: &mut WhileHeld) {
        let trailers = next(body).await.and_then(|frame| frame.into_trailers().ok()).expect("trailers");
        assert_eq!(trailers.get("grpc-status").map(|status| status.as_bytes()), Some(b"16".as_slice()));
        assert!(next(body).await.is_none());
        assert!(body.is_end_stream());
    }

    fn held(texts: &[&'static str], ends: bool, revoked: &CancellationToken) -> WhileHeld {
        let (body, revoked) = (Body::new(Says { texts: texts.iter().copied().collect(), ends }), revoked.clone());
        let ended = async move {
            revoked.cancelled().await;
            Status::unauthenticated("revoked")
        };
        WhileHeld { body, ended: Box::pin(ended), refusal: None, has_begun: false, over: false }
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_token_whether_it_waits_or_is_read_slowly() {
        for texts in [["one"].as_slice(), &["one", "two", "three"]] {
            let revoked = CancellationToken::new();
            let mut body = held(texts, false, &revoked);
            assert_eq!(next_text(&mut body).await.as_deref(), Some(b"one".as_slice()));
            revoked.cancel();
            is_refused(&mut body).await;
        }
    }

    #[tokio::test]
    async fn a_single_answer_that_is_made_comes_whole() {
        for is_revoked_first in [true, false] {
            let revoked = CancellationToken::new();
            let mut body = held(&["one"], true, &revoked);
            if is_revoked_first {
                revoked.cancel();
            }
            assert_eq!(next_text(&mut body).await.as_deref(), Some(b"one".as_slice()));
            revoked.cancel();
            assert!(next(&mut body).await.is_none());
        }
    }

    #[tokio::test]
    async fn a_stream_that_has_not_begun_says_one_thing_at_most() {
        let revoked = CancellationToken::new();
        revoked.cancel();
        let mut body = held(&["one", "two"], true, &revoked);
        assert_eq!(next_text(&mut body).await.as_deref(), Some(b"one".as_slice()));
        is_refused(&mut body).await;
    }
}
