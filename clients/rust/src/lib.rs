//! Asks an [xlashape](https://github.com/xlashape/xlashape) server about XLA's shapes, layouts, HLO modules and indexing maps.
//!
//! ```no_run
//! # async fn example() -> Result<(), xlashape::Error> {
//! let client = xlashape::Client::connect("localhost:50051")?;
//! let size = client.byte_size("f32[3,5]{1,0:T(2,2)}").await?;
//! println!("{}", size.physical_bytes); // 96
//! # Ok(())
//! # }
//! ```
//!
//! Answers are the messages of [`v1`], whose comments say what each field means. An [`Error`] has the field of the request that is wrong, and for
//! text its line and column. An [`EvaluableMap`] evaluates an indexing map of an answer without the server.

mod answers;
mod channel;
mod client;
mod error;
mod error_parts;
mod inputs;
mod map;
mod methods;
mod modules;
pub mod reason;
mod settings;

pub use channel::Channel;
pub use client::{Builder, Client};
pub use error::{Code, Error, Result};
pub use map::EvaluableMap;
pub use modules::Upload;
pub use tonic;
#[cfg(feature = "tls")]
pub use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// The messages and the generated clients of the package `xlashape.v1`.
#[allow(missing_docs, clippy::all)]
#[rustfmt::skip]
pub mod v1;
