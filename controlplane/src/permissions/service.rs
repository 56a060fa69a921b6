//! The service that plugins and the CLI call. Any replica answers any call.

use std::sync::Arc;

use moonbridge_proto::v1;
use moonbridge_proto::v1::permission_service_server::PermissionService;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, Streaming};

use super::stream::Answers;
use super::{ask, changes, import, list, watch};
use crate::auth::{Access, caller};
use crate::replica::Replica;

/// The service of a replica.
pub(crate) struct Permissions {
    replica: Arc<Replica>,
    /// One import at a time.
    importing: Semaphore,
}

impl Permissions {
    pub(crate) fn new(replica: Arc<Replica>) -> Self {
        Self { replica, importing: Semaphore::new(1) }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl PermissionService for Permissions {
    async fn check(&self, request: Request<v1::CheckRequest>) -> Answer<v1::CheckResponse> {
        ask::check(&self.replica, request.into_inner()).await.map(Response::new)
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answer<v1::ExplainResponse> {
        ask::explain_answer(&self.replica, request.into_inner()).await.map(Response::new)
    }

    async fn check_session(&self, request: Request<v1::CheckSessionRequest>) -> Answer<v1::Command> {
        ask::check_session(&self.replica, request.into_inner()).await.map(Response::new)
    }

    async fn get_user(&self, request: Request<v1::GetUserRequest>) -> Answer<v1::PermissionUserState> {
        list::user(&self.replica, request.into_inner()).await.map(Response::new)
    }

    async fn get_group(&self, request: Request<v1::GetGroupRequest>) -> Answer<v1::PermissionGroupState> {
        list::group(&self.replica, request.into_inner()).await.map(Response::new)
    }

    async fn list_users(&self, request: Request<v1::ListUsersRequest>) -> Answer<v1::ListUsersResponse> {
        list::users(&self.replica, request.into_inner()).await.map(Response::new)
    }

    async fn list_groups(&self, request: Request<v1::ListGroupsRequest>) -> Answer<v1::ListGroupsResponse> {
        list::groups(&self.replica, request.into_inner()).await.map(Response::new)
    }

    async fn list_tracks(&self, _: Request<v1::ListTracksRequest>) -> Answer<v1::ListTracksResponse> {
        list::tracks(&self.replica).await.map(Response::new)
    }

    type SearchStream = Answers<v1::SearchResult>;

    async fn search(&self, request: Request<v1::SearchRequest>) -> Answer<Self::SearchStream> {
        ask::search(self.replica.clone(), request.into_inner()).await.map(Response::new)
    }

    async fn change_user(&self, request: Request<v1::ChangeUserRequest>) -> Answer<v1::PermissionUserState> {
        let caller = caller(&request);
        changes::change_user(&self.replica, &caller, request.into_inner()).await.map(Response::new)
    }

    async fn change_group(&self, request: Request<v1::ChangeGroupRequest>) -> Answer<v1::PermissionGroupState> {
        let caller = caller(&request);
        changes::change_group(&self.replica, &caller, request.into_inner()).await.map(Response::new)
    }

    async fn create_group(&self, request: Request<v1::CreateGroupRequest>) -> Answer<v1::PermissionGroupState> {
        let caller = caller(&request);
        changes::create_group(&self.replica, &caller, request.into_inner()).await.map(Response::new)
    }

    async fn delete_group(&self, request: Request<v1::DeleteGroupRequest>) -> Answer<v1::DeleteGroupResponse> {
        let caller = caller(&request);
        changes::delete_group(&self.replica, &caller, request.into_inner()).await.map(Response::new)
    }

    async fn set_track(&self, request: Request<v1::SetTrackRequest>) -> Answer<v1::PermissionTrackState> {
        let caller = caller(&request);
        changes::set_track(&self.replica, &caller, request.into_inner()).await.map(Response::new)
    }

    async fn delete_track(&self, request: Request<v1::DeleteTrackRequest>) -> Answer<v1::DeleteTrackResponse> {
        let caller = caller(&request);
        changes::delete_track(&self.replica, &caller, request.into_inner()).await.map(Response::new)
    }

    async fn promote(&self, request: Request<v1::PromoteRequest>) -> Answer<v1::PromoteResponse> {
        let caller = caller(&request);
        changes::promote(&self.replica, &caller, request.into_inner()).await.map(Response::new)
    }

    async fn get_permission_settings(&self, _: Request<v1::GetPermissionSettingsRequest>) -> Answer<v1::PermissionSettings> {
        list::settings(&self.replica).await.map(Response::new)
    }

    async fn set_permission_settings(&self, request: Request<v1::SetPermissionSettingsRequest>) -> Answer<v1::PermissionSettings> {
        let caller = caller(&request);
        changes::set_settings(&self.replica, &caller, request.into_inner()).await.map(Response::new)
    }

    async fn import(&self, request: Request<Streaming<v1::ImportRequest>>) -> Answer<v1::ImportResponse> {
        let access = Access::of(&request);
        // Each has a file, and groups in the memory of every replica.
        let one = self.importing.try_acquire();
        let _one = one.map_err(|_| Status::aborted("another import is under way at this replica: try again when it has ended"))?;
        import::import(&self.replica, &access, request.into_inner()).await.map(Response::new)
    }

    type ExportStream = Answers<v1::PermissionRecord>;

    async fn export(&self, _: Request<v1::ExportRequest>) -> Answer<Self::ExportStream> {
        list::export(self.replica.clone()).await.map(Response::new)
    }

    type WatchStream = Answers<v1::WatchResponse>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        watch::watch(self.replica.clone(), request.into_inner()).await.map(Response::new)
    }
}
