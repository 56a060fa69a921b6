//! A replica's life: open the store, catch up with it, serve, and end in good order. A store that is lost ([`Store::lost`]) is opened
//! anew, and everything begins again on the same listener.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use moonbridge_proto::connect::listen_allowed;
use moonbridge_proto::snapshot::{DuplicateLogin, Settings};
use moonbridge_proto::token::read_token_file;
use moonbridge_proto::v1;
use moonbridge_proto::v1::admin_service_server::AdminServiceServer;
use moonbridge_proto::v1::node_service_server::NodeServiceServer;
use moonbridge_proto::v1::permission_service_server::PermissionServiceServer;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::Ready;
use crate::admin::Admin;
use crate::auth::{Auth, Caller, Guarded};
use crate::config::{Config, SettingsConfig, StoreConfig, read_favicon};
use crate::nodes::Nodes;
use crate::permissions::Permissions;
use crate::replica::Replica;
use crate::resources;
use crate::snapshots;
use crate::store::embedded::Embedded;
use crate::store::etcd::{Etcd, EtcdOptions, EtcdUser};
use crate::store::{Store, StoreError};

/// The largest message of a node: its Hello names all its sessions.
const MAX_MESSAGE: usize = 64 << 20;
/// What is left of connections so long after the shutdown began is cut.
const GOODBYE: Duration = Duration::from_secs(3);
/// Dead connections are noticed by HTTP/2 pings: so often, and the wait for an answer.
const PING: Duration = Duration::from_secs(5);
/// So that connections that never get as far as HTTP/2 end as well when their peer is gone.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// The longest wait between attempts to reach a store that is away at the start.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

pub(crate) async fn run(config: Config, shutdown: CancellationToken, ready: oneshot::Sender<Ready>) -> anyhow::Result<()> {
    listen_allowed(config.listen, config.tls.is_some(), config.allow_insecure_control).map_err(anyhow::Error::msg)?;
    if let StoreConfig::Etcd { endpoints, .. } = &config.store {
        let problems = Config::check_etcd(endpoints, config.etcd.tls.is_some(), config.allow_insecure_control);
        if let Some((_, problem)) = problems.into_iter().next() {
            anyhow::bail!("etcd: {problem} in the configuration of `moonbridge controlplane`");
        }
    }
    let token = match (&config.token, &config.token_file) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(path)) => Some(read_token_file(path)?),
        (None, None) => None,
    };
    let mut server = Server::builder().http2_keepalive_interval(Some(PING)).http2_keepalive_timeout(Some(PING));
    if let Some(tls) = &config.tls {
        server = server.tls_config(tls.load()?)?;
    }
    let settings = config.settings.as_ref().map(read_settings).transpose()?;
    let listener = TcpListener::bind(config.listen).await.with_context(|| format!("cannot listen on {}", config.listen))?;
    let listen = listener.local_addr()?;
    // Kept open while the store is opened anew: who connects meanwhile waits.
    let listener = listener.into_std()?;

    let mut service = Service { server, listener, listen, settings, token: token.map(Into::into), ready: Some(ready) };
    let mut lost = None;
    while let Some(store) = open(&config, lost.as_deref(), &shutdown).await? {
        let id = store.id().to_owned();
        let Some(why) = service.live(&config, store, &shutdown).await? else { break };
        tracing::error!(store = id, why, "the store is lost: it is opened anew, and the nodes attach again");
        lost = Some(id);
    }
    Ok(())
}

/// What outlives an opened store.
struct Service {
    server: Server,
    listener: std::net::TcpListener,
    listen: SocketAddr,
    settings: Option<Given>,
    token: Option<Arc<str>>,
    ready: Option<oneshot::Sender<Ready>>,
}

impl Service {
    /// Serves on this store, until the shutdown (`None`) or until it is lost (why).
    async fn live(&mut self, config: &Config, store: Arc<dyn Store>, shutdown: &CancellationToken) -> anyhow::Result<Option<String>> {
        // A child, so that every way out of here ends the tasks.
        let stop = shutdown.child_token();
        let _stop = stop.clone().drop_guard();
        let replica = Replica::new(config.name.clone(), config.lease, store, stop);
        let mut tasks = JoinSet::new();
        replica.spawn(&mut tasks);
        let mut serving = Box::pin(self.serve(&replica));
        let lost = tokio::select! {
            served = &mut serving => {
                served?;
                None
            }
            why = replica.store.lost() => {
                // The streams end with a reason; whatever else goes wrong now is the store's fault.
                replica.shutdown.cancel();
                let _ = serving.await;
                Some(why)
            }
        };
        replica.shutdown.cancel();
        while tasks.join_next().await.is_some() {}
        // They hold the store; an embedded one is free for the next process only without them.
        let _ = tokio::time::timeout(GOODBYE, replica.attached.ended()).await;
        Ok(lost)
    }

    async fn serve(&mut self, replica: &Arc<Replica>) -> anyhow::Result<()> {
        if !replica.synced().await {
            return Ok(());
        }
        if let Some(settings) = &self.settings {
            let written = resources::change_settings(replica, &Caller::configuration(), |current| settings.apply(current)).await;
            written.context("cannot write the settings")?;
        }
        let listener = TcpListener::from_std(self.listener.try_clone()?)?;
        tracing::info!(listen = %self.listen, name = replica.name, store = replica.store.id(), "the control plane serves");
        if let Some(ready) = self.ready.take() {
            // Nobody may wait for it.
            let _ = ready.send(Ready { listen: self.listen });
        }
        serve(self.server.clone(), listener, replica, Auth::new(self.token.clone(), replica.tokens.clone())).await
    }
}

async fn serve(mut server: Server, listener: TcpListener, replica: &Arc<Replica>, auth: Auth) -> anyhow::Result<()> {
    let admin = AdminServiceServer::new(Admin(replica.clone())).max_decoding_message_size(MAX_MESSAGE);
    let nodes = NodeServiceServer::new(Nodes(replica.clone())).max_decoding_message_size(MAX_MESSAGE);
    let permissions = PermissionServiceServer::new(Permissions::new(replica.clone())).max_decoding_message_size(MAX_MESSAGE);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true)).with_keepalive(Some(TCP_KEEPALIVE));
    let router = server
        .add_service(Guarded::new(admin, auth.clone()))
        .add_service(Guarded::new(permissions, auth.clone()))
        .add_service(Guarded::new(nodes, auth));
    let serving = router.serve_with_incoming_shutdown(incoming, replica.shutdown.clone().cancelled_owned());
    let overtime = async {
        replica.shutdown.cancelled().await;
        replica.attached.ended().await;
        tokio::time::sleep(GOODBYE).await;
    };
    tokio::select! {
        served = serving => served.context("the control plane's listener has failed"),
        () = overtime => Ok(()),
    }
}

/// Opens the store, or what is there since the one with the id `lost` was lost. One in etcd that is away is waited for; so is one that
/// was lost. `None` if the shutdown comes first.
async fn open(config: &Config, lost: Option<&str>, shutdown: &CancellationToken) -> anyhow::Result<Option<Arc<dyn Store>>> {
    let opened = async {
        match &config.store {
            StoreConfig::Embedded { data_dir } if lost.is_some() => open_again(data_dir).await,
            StoreConfig::Embedded { data_dir } => Ok(open_embedded(data_dir).await??),
            StoreConfig::Etcd { endpoints, prefix } => {
                connect(EtcdOptions { endpoints: endpoints.clone(), prefix: prefix.clone(), ..etcd_access(config)? }, lost).await
            }
        }
    };
    shutdown.run_until_cancelled(opened).await.transpose()
}

async fn open_embedded(data_dir: &Path) -> anyhow::Result<Result<Arc<dyn Store>, StoreError>> {
    let dir = data_dir.to_owned();
    let opened = tokio::task::spawn_blocking(move || Embedded::open(&dir)).await?;
    Ok(opened.map(|store| Arc::new(store) as Arc<dyn Store>))
}

/// Opens a store whose file could not be written, once that may have changed.
async fn open_again(data_dir: &Path) -> anyhow::Result<Arc<dyn Store>> {
    loop {
        tokio::time::sleep(LONGEST_WAIT).await;
        match open_embedded(data_dir).await? {
            Ok(store) => return Ok(store),
            Err(error @ StoreError::Unusable(_)) => tracing::warn!(%error, "cannot open the store, trying again"),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn connect(options: EtcdOptions, lost: Option<&str>) -> anyhow::Result<Arc<dyn Store>> {
    let mut wait = Duration::from_millis(200);
    loop {
        let connected = match lost {
            Some(id) => Etcd::connect_again(options.clone(), id).await,
            None => Etcd::connect(options.clone()).await,
        };
        match connected {
            Ok(store) => return Ok(Arc::new(store)),
            Err(error @ StoreError::Unavailable(_)) => {
                tracing::warn!(endpoints = options.endpoints.join(","), %error, "cannot reach etcd, trying again");
                tokio::time::sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            Err(error) => return Err(error).context("cannot use etcd"),
        }
    }
}

fn etcd_access(config: &Config) -> anyhow::Result<EtcdOptions> {
    let config = &config.etcd;
    let tls = config.tls.as_ref().map(|tls| tls.load()).transpose().context("store.etcd.tls")?;
    let user = match (&config.user, &config.password_file) {
        (Some(name), Some(path)) => {
            Some(EtcdUser { name: name.clone(), password: read_token_file(path).context("store.etcd.password_file")? })
        }
        _ => None,
    };
    Ok(EtcdOptions { endpoints: Vec::new(), prefix: String::new(), tls, user })
}

/// Settings of the configuration, checked.
struct Given {
    motd: Option<String>,
    max_players: Option<u32>,
    favicon: Option<Vec<u8>>,
    duplicate_login: Option<DuplicateLogin>,
}

impl Given {
    fn apply(&self, settings: &mut v1::Settings) {
        if let Some(motd) = &self.motd {
            settings.motd.clone_from(motd);
        }
        if let Some(max_players) = self.max_players {
            settings.max_players = max_players;
        }
        if let Some(favicon) = &self.favicon {
            settings.favicon.clone_from(favicon);
        }
        if let Some(policy) = self.duplicate_login {
            settings.duplicate_login = v1::DuplicateLogin::from(policy).into();
        }
    }
}

fn read_settings(config: &SettingsConfig) -> anyhow::Result<Given> {
    let favicon = config.favicon.as_deref().map(read_favicon).transpose();
    let favicon = favicon.map_err(|problem| anyhow::anyhow!("settings.favicon: {problem}"))?;
    let given = Given { motd: config.motd.clone(), max_players: config.max_players, favicon, duplicate_login: config.duplicate_login };
    let mut all = v1::Settings::from(&Settings::default());
    given.apply(&mut all);
    match Settings::try_from(all) {
        Ok(_) => Ok(given),
        Err(mistakes) => Err(anyhow::anyhow!("settings.{}", snapshots::shown(&mistakes))),
    }
}
