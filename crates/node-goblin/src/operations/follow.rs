//! Operations as they change: the last ones, then a line for each change. A lost stream is opened again, and what changed
//! meanwhile is told.

use super::{kind, state, took};
use crate::answer;
use crate::api::{Api, ApiError, Events};
use crate::terminal::{self, FAINT, STRONG, paint, safe};
use goblin_api::events::{OPERATION, OperationEvent, SNAPSHOT, SnapshotEvent};
use goblin_api::{Activity, routes};
use std::collections::HashMap;
use std::time::Duration;

/// First and longest pause before a lost stream is opened again.
pub const PATIENCE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Which operations are told, and what was told of them.
pub struct Following<'a> {
    gateway: Option<&'a str>,
    limit: usize,
    json: bool,
    /// By gateway and operation; as many as the controller keeps.
    told: HashMap<(String, String), Activity>,
    begun: bool,
}

impl<'a> Following<'a> {
    pub fn new(gateway: Option<&'a str>, limit: u32, json: bool) -> Self {
        Self {
            gateway,
            limit: limit as usize,
            json,
            told: HashMap::new(),
            begun: false,
        }
    }

    /// Tells each change, until the controller refuses or nothing can be printed.
    pub async fn run(
        mut self,
        api: &Api,
        (first, most): (Duration, Duration),
        print: &mut impl FnMut(String) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut pause = first;
        loop {
            let why = match api.events(&routes::events()).await {
                Ok(events) => {
                    let lost = self.tell_all(events, print).await?;
                    pause = first;
                    lost.map_or_else(|| "the stream of changes ended".to_owned(), |error| error.to_string())
                }
                // What fails at once is no interruption.
                Err(error) if !self.begun || !error.may_pass() => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            terminal::note(format_args!("node-goblin: {why}; trying again"));
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(most);
        }
    }

    /// Tells one stream to its end; why it was lost, if it was.
    async fn tell_all(
        &mut self,
        mut events: Events,
        print: &mut impl FnMut(String) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<ApiError>> {
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(None),
                Err(error) if error.may_pass() => return Ok(Some(error)),
                Err(error) => return Err(error.into()),
            };
            match event.name.as_str() {
                SNAPSHOT => self.replace(answer::read(&event.data)?, print)?,
                OPERATION => {
                    let event: OperationEvent = answer::read(&event.data)?;
                    match event.operation {
                        Some(operation) => self.tell(operation, print)?,
                        None => _ = self.told.remove(&(event.gateway_id, event.operation_id)),
                    }
                }
                _ => {}
            }
        }
    }

    /// The whole state: what it no longer has is forgotten, what is new or changed is told.
    fn replace(
        &mut self,
        snapshot: SnapshotEvent,
        print: &mut impl FnMut(String) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let wanted = |activity: &Activity| self.gateway.is_none_or(|gateway| activity.gateway_id == gateway);
        let operations: Vec<Activity> = snapshot.operations.into_iter().filter(wanted).collect();
        let mut before = std::mem::take(&mut self.told);
        // The first time only the last ones are told.
        let skipped = match std::mem::replace(&mut self.begun, true) {
            true => 0,
            false => operations.len().saturating_sub(self.limit),
        };
        for (index, operation) in operations.into_iter().enumerate() {
            let place = key(&operation);
            if let Some(told) = before.remove(&place) {
                self.told.insert(place.clone(), told);
            }
            match index < skipped {
                true => _ = self.told.insert(place, operation),
                false => self.tell(operation, print)?,
            }
        }
        Ok(())
    }

    fn tell(
        &mut self,
        operation: Activity,
        print: &mut impl FnMut(String) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.gateway.is_some_and(|gateway| operation.gateway_id != gateway) {
            return Ok(());
        }
        let known = self.told.get(&key(&operation));
        if known == Some(&operation) {
            return Ok(());
        }
        print(match self.json {
            true => serde_json::to_string(&operation)?,
            false => line(&operation),
        })?;
        self.told.insert(key(&operation), operation);
        Ok(())
    }
}

fn key(operation: &Activity) -> (String, String) {
    (operation.gateway_id.clone(), operation.operation_id.clone())
}

/// When, where, what, how: columns as far as the usual lengths go.
fn line(operation: &Activity) -> String {
    let times = [&operation.ended_at, &operation.accepted_at];
    let time = times.into_iter().flatten().next().unwrap_or(&operation.started_at);
    let (style, word) = state(operation);
    let took = match operation.duration_ms {
        Some(_) => format!(" after {}", took(operation)),
        None => String::new(),
    };
    format!(
        "{}  {}  {}  {:<7}  {}{}",
        paint(FAINT, safe(time.get(..19).unwrap_or(time))),
        format_args!("{:<12}", safe(&operation.gateway_id)),
        paint(STRONG, format!("{:<36}", safe(&operation.operation_id))),
        kind(operation.kind),
        paint(style, word),
        took
    )
}
