//! A gateway as a child process, connected through its standard streams.

use crate::ClientError;
use crate::connection::{Connection, start};
use goblin_link::{FrameReader, start_writer};
use goblin_protocol::limits::FRAME_MAX;
use goblin_protocol::request::Method;
use std::process::{Command, ExitStatus, Stdio};
use tokio::process::Child;

/// A running gateway. Dropping it kills the child.
pub struct GatewayProcess {
    child: Child,
    connection: Connection,
}

impl GatewayProcess {
    /// Starts a command that is a gateway over standard streams, such as `node-goblin gateway`. To be called within a runtime.
    pub fn start(command: &mut Command) -> Result<Self, ClientError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = {
            // The caller's command is taken by reference so that a chain of builder calls can be passed as it is.
            let mut owned = Command::new("");
            std::mem::swap(&mut owned, command);
            tokio::process::Command::from(owned).kill_on_drop(true).spawn()?
        };
        let piped = |missing: &str| std::io::Error::other(format!("the child has no {missing}"));
        let input = child.stdin.take().ok_or_else(|| piped("standard input"))?;
        let output = child.stdout.take().ok_or_else(|| piped("standard output"))?;
        let (sender, _writer) = start_writer(input);
        let (connection, _reader) = start(FrameReader::new(output, FRAME_MAX), sender, None);
        Ok(Self { child, connection })
    }

    /// The connection to it.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The child's process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks it to stop, which cancels what runs, and waits for its end.
    pub async fn shutdown(mut self) -> Result<ExitStatus, ClientError> {
        self.connection
            .request(Method::Shutdown, &serde_json::json!({}))
            .await?
            .map_err(ClientError::Remote)?;
        Ok(self.child.wait().await?)
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> Result<ExitStatus, ClientError> {
        Ok(self.child.wait().await?)
    }
}
