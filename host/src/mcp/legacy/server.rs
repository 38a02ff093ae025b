//! What a client of a handshake revision sees of the host: who it is, what it offers, and when that
//! changes.
#![expect(
    deprecated,
    reason = "the newest revision drops logging; these revisions have it"
)]

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::call;
use super::follow::Following;
use super::message::{LEVEL_DEFAULT, ours};
use super::read::Asker;
use crate::mcp::error::Refusal;
use crate::mcp::list::{ListCache, Lists};
use crate::service::{CallError, LogLevel, Service};
use crate::task::TenantId;

/// The revisions served, newest first. The oldest was published with another HTTP transport; its clients
/// come over lines, or over the newer transport, which some spoke before they spoke a newer revision.
const VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2024_11_05,
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
    pub lists: Arc<Lists>,
    /// How many calls are running.
    pub calls: Arc<watch::Sender<usize>>,
}

/// One client's server.
pub struct LegacyServer {
    offer: Offer,
    tenant: TenantId,
    following: Following,
    /// The least that the client wants to hear.
    level: Mutex<LogLevel>,
}

impl LegacyServer {
    pub fn new(offer: Offer, tenant: TenantId) -> LegacyServer {
        LegacyServer {
            offer,
            tenant,
            following: Following::default(),
            level: Mutex::new(LEVEL_DEFAULT),
        }
    }

    fn level(&self) -> LogLevel {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asker(&self) -> Asker<'_> {
        Asker {
            offer: &self.offer,
            tenant: &self.tenant,
            level: self.level(),
        }
    }

    /// Waits for the plugins of a host that starts; what is asked of the host itself does not.
    async fn until_loaded(&self, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        tokio::select! {
            () = self.offer.service.until_loaded() => Ok(()),
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("the request was cancelled", None))
            }
        }
    }

    /// A page of a list as rmcp has it.
    async fn page<T: DeserializeOwned>(
        &self,
        list: &ListCache,
        request: Option<PaginatedRequestParams>,
        context: &RequestContext<RoleServer>,
    ) -> Result<(Vec<T>, Option<String>), ErrorData> {
        self.until_loaded(context).await?;
        let cursor = request.and_then(|request| request.cursor);
        let (page, next) = list
            .page(self.offer.service.tools(), cursor.as_deref())
            .map_err(error_data)?;
        let items: Result<Vec<T>, _> = page.iter().map(|json| serde_json::from_str(json)).collect();
        let items = items.map_err(|error| {
            ErrorData::internal_error(format!("a list can't be shown: {error}"), None)
        })?;
        Ok((items, next))
    }
}

impl ServerHandler for LegacyServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_completions()
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
        self.following
            .follow_lists(&self.offer.service, &context.peer);
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        *level = ours(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (tools, next) = self
            .page(&self.offer.lists.tools, request, &context)
            .await?;
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (prompts, next) = self
            .page(&self.offer.lists.prompts, request, &context)
            .await?;
        let mut result = ListPromptsResult::with_all_items(prompts);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (resources, next) = self
            .page(&self.offer.lists.resources, request, &context)
            .await?;
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let (templates, next) = self
            .page(&self.offer.lists.templates, request, &context)
            .await?;
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        result.next_cursor = next;
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.until_loaded(&context).await?;
        let read = self.asker().read(request, context).await?;
        Ok(ReadResourceResponse::Complete(read))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.until_loaded(&context).await?;
        let told = self.asker().get_prompt(request, context).await?;
        Ok(GetPromptResponse::Complete(told))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.until_loaded(&context).await?;
        self.asker().complete(request, context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.until_loaded(&context).await?;
        let service = &self.offer.service;
        self.following
            .subscribe(service, &self.tenant, request.uri, &context.peer)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.following.unsubscribe(&request.uri);
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.until_loaded(&context).await?;
        call::call(&self.offer, &self.tenant, self.level(), request, context)
            .await
            .map(CallToolResponse::Complete)
    }
}

/// A refusal as rmcp sends it.
pub fn error_data(refusal: Refusal) -> ErrorData {
    let face = refusal.face();
    let code = match &refusal {
        // What these revisions have for it (2025-11-25, server/resources, "Error Handling").
        Refusal::Call(CallError::UnknownResource(_)) => ErrorCode::RESOURCE_NOT_FOUND,
        _ => ErrorCode(face.code),
    };
    let data = face.data.and_then(|data| serde_json::from_str(&data).ok());
    ErrorData::new(code, face.message, data)
}
