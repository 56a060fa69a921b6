//! The admin API. Any replica answers any call.

mod audit;
mod page;
mod players;
mod resources;
mod tokens;
pub(crate) mod transfers;
mod watch;

use std::sync::Arc;

use moonbridge_proto::v1;
use moonbridge_proto::v1::admin_service_server::AdminService;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::auth::caller;
use crate::replica::Replica;

pub(crate) use players::{carry_out, online};

/// The service that admins and their tools call.
pub(crate) struct Admin(pub(crate) Arc<Replica>);

/// Who asks for a command is kept with it: at most so many bytes.
pub(crate) const MAX_ORIGIN: usize = 64;

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AdminService for Admin {
    async fn list_nodes(&self, request: Request<v1::ListNodesRequest>) -> Answer<v1::ListNodesResponse> {
        players::list_nodes(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn drain_node(&self, request: Request<v1::DrainNodeRequest>) -> Answer<v1::Command> {
        players::drain_node(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn list_backends(&self, request: Request<v1::ListBackendsRequest>) -> Answer<v1::ListBackendsResponse> {
        resources::list_backends(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn set_backend(&self, request: Request<v1::SetBackendRequest>) -> Answer<v1::Backend> {
        resources::set_backend(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn remove_backend(&self, request: Request<v1::RemoveBackendRequest>) -> Answer<v1::RemoveBackendResponse> {
        resources::remove_backend(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn drain_backend(&self, request: Request<v1::DrainBackendRequest>) -> Answer<v1::Backend> {
        resources::drain_backend(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn set_plugin_channel(&self, request: Request<v1::SetPluginChannelRequest>) -> Answer<v1::Backend> {
        resources::set_plugin_channel(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn restrict_backend(&self, request: Request<v1::RestrictBackendRequest>) -> Answer<v1::Backend> {
        resources::restrict_backend(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn list_routes(&self, request: Request<v1::ListRoutesRequest>) -> Answer<v1::ListRoutesResponse> {
        resources::list_routes(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn set_route(&self, request: Request<v1::SetRouteRequest>) -> Answer<v1::Route> {
        resources::set_route(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn remove_route(&self, request: Request<v1::RemoveRouteRequest>) -> Answer<v1::RemoveRouteResponse> {
        resources::remove_route(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn test_route(&self, request: Request<v1::TestRouteRequest>) -> Answer<v1::TestRouteResponse> {
        resources::test_route(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn list_players(&self, request: Request<v1::ListPlayersRequest>) -> Answer<v1::ListPlayersResponse> {
        players::list_players(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn kick_player(&self, request: Request<v1::KickPlayerRequest>) -> Answer<v1::Command> {
        players::kick_player(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn message_player(&self, request: Request<v1::MessagePlayerRequest>) -> Answer<v1::Command> {
        players::message_player(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn record_session(&self, request: Request<v1::RecordSessionRequest>) -> Answer<v1::Command> {
        players::record_session(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn start_transfers(&self, request: Request<v1::StartTransfersRequest>) -> Answer<v1::StartTransfersResponse> {
        transfers::start(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn list_commands(&self, request: Request<v1::ListCommandsRequest>) -> Answer<v1::ListCommandsResponse> {
        watch::list(&self.0, request.into_inner()).await.map(Response::new)
    }

    type WatchCommandsStream = ReceiverStream<Result<v1::Command, Status>>;

    async fn watch_commands(&self, request: Request<v1::WatchCommandsRequest>) -> Answer<Self::WatchCommandsStream> {
        watch::watch(self.0.clone(), request.into_inner()).await.map(Response::new)
    }

    async fn get_settings(&self, _: Request<v1::GetSettingsRequest>) -> Answer<v1::Settings> {
        crate::resources::settings(&*self.0.store).await.map(Response::new)
    }

    async fn set_settings(&self, request: Request<v1::SetSettingsRequest>) -> Answer<v1::Settings> {
        resources::set_settings(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }
    async fn create_token(&self, request: Request<v1::CreateTokenRequest>) -> Answer<v1::CreateTokenResponse> {
        tokens::create(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn list_tokens(&self, request: Request<v1::ListTokensRequest>) -> Answer<v1::ListTokensResponse> {
        tokens::list(&self.0, request.into_inner()).await.map(Response::new)
    }

    async fn revoke_token(&self, request: Request<v1::RevokeTokenRequest>) -> Answer<v1::RevokeTokenResponse> {
        tokens::revoke(&self.0, &caller(&request), request.into_inner()).await.map(Response::new)
    }

    async fn list_audit(&self, request: Request<v1::ListAuditRequest>) -> Answer<v1::ListAuditResponse> {
        audit::list(&self.0, request.into_inner()).await.map(Response::new)
    }
}
