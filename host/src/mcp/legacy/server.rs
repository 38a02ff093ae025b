//! What a client of a handshake revision sees of the host: who it is, its tools, and when they
//! change.
#![expect(
    deprecated,
    reason = "the newest revision drops logging; these revisions have it"
)]

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorCode, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::call;
use crate::catalog::Snapshot;
use crate::mcp::error::Refusal;
use crate::mcp::list::ListCache;
use crate::service::Service;
use crate::task::TenantId;

/// The revisions served, newest first.
const VERSIONS: [ProtocolVersion; 3] = [
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_03_26,
];

const INSTRUCTIONS: &str = "Longshore runs tools that may take long. In this revision of MCP a call \
    is answered within its request: a slow tool reports progress meanwhile, and cancelling or \
    closing the call stops it. Tools that always run as tasks need a client of revision 2026-07-28 \
    with the io.modelcontextprotocol/tasks extension. tools/list says under \
    _meta[\"longshore/traits\"] what each tool may ask, what a cancel means for it and how it runs.";

/// What every client is served from.
#[derive(Clone)]
pub struct Offer {
    pub service: Service,
    pub tools: Arc<ListCache>,
    /// How many calls are running.
    pub calls: Arc<watch::Sender<usize>>,
}

/// One client's server.
pub struct LegacyServer {
    offer: Offer,
    tenant: TenantId,
    /// Tells the client of changed tools, as long as it is there.
    follower: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl LegacyServer {
    pub fn new(offer: Offer, tenant: TenantId) -> LegacyServer {
        LegacyServer {
            offer,
            tenant,
            follower: Mutex::new(None),
        }
    }
}

impl ServerHandler for LegacyServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_logging()
            .build();
        let mut host = Implementation::new("longshore", env!("CARGO_PKG_VERSION"));
        host.title = Some("Longshore".to_owned());
        ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_server_info(host)
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&VERSIONS)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let changes = self.offer.service.tool_changes();
        let following = tokio::spawn(follow_tools(changes, context.peer));
        // Only whole values are ever put in, so a panic elsewhere left nothing broken.
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        *follower = Some(AbortOnDropHandle::new(following));
    }

    /// Guests have no way to send log messages to a client, so the level has no effect.
    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let (page, next) = self
            .offer
            .tools
            .page(self.offer.service.tools(), cursor.as_deref())
            .map_err(error_data)?;
        let tools: Result<Vec<Tool>, _> =
            page.iter().map(|json| serde_json::from_str(json)).collect();
        let tools = tools.map_err(|error| {
            ErrorData::internal_error(format!("a tool can't be shown: {error}"), None)
        })?;
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        call::call(&self.offer, &self.tenant, request, context)
            .await
            .map(CallToolResponse::Complete)
    }
}

async fn follow_tools(mut changes: watch::Receiver<Arc<Snapshot>>, peer: Peer<RoleServer>) {
    while changes.changed().await.is_ok() {
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

/// A refusal as rmcp sends it.
pub fn error_data(refusal: Refusal) -> ErrorData {
    let face = refusal.face();
    let data = face.data.and_then(|data| serde_json::from_str(&data).ok());
    ErrorData::new(ErrorCode(face.code), face.message, data)
}
