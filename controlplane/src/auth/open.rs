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
