//! The place of a session's call with many parts, on its way through rmcp: from the door until its
//! arguments have been checked.

use std::sync::{Arc, Mutex, PoisonError};

use http::request;
use rmcp::RoleServer;
use rmcp::service::RequestContext;

use crate::service::Place;

/// Travels with the HTTP request, whose parts rmcp hands on and may copy.
#[derive(Clone)]
pub struct Reading(Arc<Mutex<Option<Place>>>);

impl Reading {
    pub fn new(place: Place) -> Reading {
        Reading(Arc::new(Mutex::new(Some(place))))
    }

    /// The place of the call, for whoever checks its arguments.
    pub fn place(context: &RequestContext<RoleServer>) -> Option<Place> {
        let head = context.extensions.get::<request::Parts>()?;
        let Reading(place) = head.extensions.get()?;
        place.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
