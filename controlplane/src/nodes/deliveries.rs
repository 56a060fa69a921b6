//! What other sessions have for those of a node, sent to it.

use moonbridge_proto::v1::control_message;

use super::stream::{End, Out};
use crate::replica::Replica;

/// Sends the node's deliveries as they come.
pub(super) async fn tell(replica: &Replica, node: &str, out: &Out) -> Result<(), End> {
    let mut lane = replica.deliveries.attach(node);
    while let Some(next) = lane.next().await {
        out.send(control_message::Message::Delivery((*next.delivery).clone())).await?;
        lane.sent(&next);
    }
    // A newer stream of the node has them from here on, and ends this one.
    std::future::pending().await
}
