use std::fmt;
use std::sync::Arc;

use tonic_types::StatusExt;

use crate::error_parts::Parts;

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
pub struct Error(pub(crate) Box<Parts>);

impl Error {
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
        if let Some(info) = status.get_details_error_info().filter(|info| info.domain == DOMAIN) {
            error.0.reason = info.reason;
            error.0.take(info.metadata);
        }
        error
    }
}
