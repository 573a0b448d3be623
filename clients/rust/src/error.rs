use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tonic_types::StatusExt;

pub use tonic::Code;

/// The domain of the server's `google.rpc.ErrorInfo`.
const DOMAIN: &str = "xlashape";

/// A result whose error is an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What a call was refused with, or why it did not reach the server.
///
/// ```
/// # async fn example(client: xlashape::Client) {
/// let error = client.byte_size("f32[3,5").await.unwrap_err();
/// assert_eq!((error.reason(), error.line(), error.column()), ("PARSE", Some(1), Some(8)));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: Code,
    reason: String,
    message: String,
    field: String,
    line: Option<u32>,
    column: Option<u32>,
    details: HashMap<String, String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// The status of the call: `InvalidArgument`, `NotFound`, `ResourceExhausted`, `DeadlineExceeded`, `Unavailable`, …
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The server's name for what is wrong: `PARSE`, `INVALID_INDEX`, `NOT_FOUND`, `LIMIT_EXCEEDED`, … Empty if the error does not come from
    /// xlashape, but from the transport or from a proxy.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// What is wrong, in a sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The path of the wrong field in the request, such as `shapes[3].text`. Empty if no field is to blame.
    pub fn field(&self) -> &str {
        &self.0.field
    }

    /// The line of text that is wrong, from 1.
    pub fn line(&self) -> Option<u32> {
        self.0.line
    }

    /// The column of text that is wrong, in characters, from 1.
    pub fn column(&self) -> Option<u32> {
        self.0.column
    }

    /// All other details by name: `limit`, `maximum` and `value` of an exceeded limit, `kind` and `name` of what was not found, …
    pub fn details(&self) -> &HashMap<String, String> {
        &self.0.details
    }

    pub(crate) fn new(code: Code, reason: &str, message: impl Into<String>) -> Self {
        Error(Box::new(Parts {
            code,
            reason: reason.into(),
            message: message.into(),
            field: String::new(),
            line: None,
            column: None,
            details: HashMap::new(),
            source: None,
        }))
    }

    /// An error that this crate finds by itself.
    pub(crate) fn mistake(reason: &str, field: &str, message: impl Into<String>) -> Self {
        let mut error = Error::new(Code::InvalidArgument, reason, message);
        error.0.field = field.into();
        error
    }

    /// The error of a call whose reader failed.
    pub(crate) fn of_reader(source: std::io::Error) -> Self {
        let mut error = Error::new(Code::Unknown, "", format!("cannot read the module: {source}"));
        error.0.source = Some(Arc::new(source));
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { code, reason, message, field, line, column, .. } = &*self.0;
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        if let (Some(line), Some(column)) = (line, column) {
            write!(f, "line {line}, column {column}: ")?;
        }
        match reason.as_str() {
            "" => write!(f, "{message} ({code:?})"),
            reason => write!(f, "{message} ({reason})"),
        }
    }
}

/// The source is the status of the call; where a reader failed, its error.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        let mut error = Error::new(status.code(), "", status.message());
        // tonic's own timer, which ends a call at the deadline in its metadata, calls it a cancelled call.
        if status.code() == Code::Cancelled && status.message() == "Timeout expired" {
            error.0.code = Code::DeadlineExceeded;
        } else if let Some(source) = std::error::Error::source(&status) {
            // The connection broke, such as for a server that refuses the client's certificate. The last source says why.
            let last = std::iter::successors(Some(source), |cause| cause.source()).last().unwrap_or(source);
            error.0.message = format!("{}: {last}", status.message());
            if matches!(status.code(), Code::Unknown | Code::Cancelled) {
                error.0.code = Code::Unavailable;
            }
        }
        error.0.source = Some(Arc::new(status.clone()));
        let Some(info) = status.get_details_error_info().filter(|info| info.domain == DOMAIN) else {
            return error;
        };
        let parts = &mut *error.0;
        parts.reason = info.reason;
        parts.details = info.metadata;
        if let Some(message) = parts.details.remove("message") {
            parts.message = message;
        }
        parts.field = parts.details.remove("field").unwrap_or_default();
        parts.line = parts.details.remove("line").and_then(|line| line.parse().ok());
        parts.column = parts.details.remove("column").and_then(|column| column.parse().ok());
        error
    }
}
