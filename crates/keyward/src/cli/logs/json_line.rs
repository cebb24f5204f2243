//! One line of JSON per event, with the fields of the spans around it beside its own.
//!
//! The format that comes with the subscriber puts spans into objects of their own, where a field called `name` comes
//! twice. Whoever searches logs for a resource should not have to know which lines were written in which span.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

pub(super) struct JsonLine;

#[derive(Serialize)]
struct Line<'a> {
    timestamp: &'a str,
    level: &'a str,
    #[serde(flatten)]
    fields: Map<String, Value>,
    target: &'a str,
}

impl<S> FormatEvent<S, JsonFields> for JsonLine
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Map::new();
        // From the outermost inwards: what is nearer to the event goes before.
        let spans = context.event_scope().into_iter();
        for span in spans.flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<FormattedFields<JsonFields>>() {
                fields.extend(object(&of_span.fields));
            }
        }
        let mut of_event = String::new();
        context.format_fields(Writer::new(&mut of_event), event)?;
        fields.extend(object(&of_event));
        // What came through the `log` crate has its place in fields.
        let logged = fields.remove("log.target");
        fields.retain(|name, _| !name.starts_with("log."));
        let logged = logged.as_ref().and_then(Value::as_str);
        let line = Line {
            timestamp: &timestamp,
            level: event.metadata().level().as_str(),
            fields,
            target: logged.unwrap_or(event.metadata().target()),
        };
        let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

fn object(fields: &str) -> Map<String, Value> {
    serde_json::from_str(fields).unwrap_or_default()
}
