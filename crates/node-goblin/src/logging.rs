//! Where logs go: standard error, for a person or for the system's journal; and the daemon's one-line status to the
//! service manager.

use crate::service::Manager;
use std::fmt;
use std::io::IsTerminal;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt as lines};

/// Starts logging. `RUST_LOG` overrides the default level.
pub fn start(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let journal = std::env::var_os("JOURNAL_STREAM").is_some_and(|stream| is_stderr(&stream));
    let shown = lines::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .event_format(Line { journal })
        .with_filter(filter);
    // A second start, as tests may do, changes nothing.
    let _ = tracing_subscriber::registry()
        .with(shown)
        .with(Manager::of_this_process().map(StatusLine))
        .try_init();
}

/// True when standard error is the journal's stream, told as `device:inode`.
fn is_stderr(stream: &std::ffi::OsStr) -> bool {
    rustix::fs::fstat(std::io::stderr()).is_ok_and(|stat| *stream == *format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// One event as a line. The journal reads the priority off its head (sd-daemon(3)) and has the time itself.
struct Line {
    journal: bool,
}

/// The priority of a level, as syslog numbers them.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let format = Format::default().with_target(false);
        if self.journal {
            write!(writer, "<{}>", priority(*event.metadata().level()))?;
            let format = format.with_level(false).without_time();
            format.format_event(context, writer, event)
        } else {
            format.format_event(context, writer, event)
        }
    }
}

/// Hands what the daemon says it is doing to the service manager.
struct StatusLine(Manager);

impl<S: Subscriber> Layer<S> for StatusLine {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == goblin_gateway::presence::TARGET {
            event.record(&mut Sentence(&self.0));
        }
    }
}

struct Sentence<'a>(&'a Manager);

impl Visit for Sentence<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.status(&format!("{value:?}"));
        }
    }
}
