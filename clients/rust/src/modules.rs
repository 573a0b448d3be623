use futures_util::{future, stream};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use crate::answers::present;
use crate::client::{ask, within};
use crate::v1::{GetModuleRequest, Module, PutModuleRequest, UploadModuleRequest};
use crate::{Client, Code, Error, Result};

/// The bytes in one message of a module that is sent or fetched in several.
const PART_BYTES: usize = 1 << 20;

/// A module that the server has after an upload.
#[derive(Clone, Debug)]
pub struct Upload {
    /// The module.
    pub module: Module,
    /// Whether its content was sent. If not, the server had it already.
    pub sent: bool,
}

impl Client {
    /// Stores a module: HLO text, or a serialized `xla.HloModuleProto` or `xla.HloProto`. A module that the server has already is not sent again.
    pub async fn upload_module(&self, content: &[u8]) -> Result<Upload> {
        let sha256: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        match self.get_module(format!("modules/{sha256}")).await {
            Ok(module) => return Ok(Upload { module, sent: false }),
            Err(error) if error.code() == Code::NotFound => {}
            Err(error) => return Err(error),
        }
        let module = if content.len() <= PART_BYTES {
            let request = PutModuleRequest { data: content.to_vec(), sha256 };
            ask!(self, modules.put_module, request, self.settings.attempts)?.module
        } else {
            let size_bytes = content.len() as i64;
            let mut parts: Vec<_> = content
                .chunks(PART_BYTES)
                .map(|part| UploadModuleRequest { data: part.to_vec(), ..Default::default() })
                .collect();
            parts[0].sha256 = sha256;
            parts[0].size_bytes = size_bytes;
            let deadline = self.stream_deadline();
            let request = self.stream_request(stream::iter(parts));
            within(deadline, async { self.modules().upload_module(request).await }).await?.into_inner().module
        };
        Ok(Upload { module: present(module)?, sent: true })
    }

    /// Stores a module that is sent while it is read, in parts of 1 MiB, whether or not the server has it. `progress` is told how many bytes were sent, after
    /// each part. A reader that fails ends the call, and stores nothing: `source()` of the error is that of the reader.
    pub async fn upload_module_from(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut progress: impl FnMut(u64),
    ) -> Result<Upload> {
        let (parts, mut taken) = mpsc::channel::<UploadModuleRequest>(1);
        let requests = stream::poll_fn(move |context| taken.poll_recv(context));
        let reading = async move {
            let mut sent = 0;
            loop {
                let mut data = Vec::with_capacity(PART_BYTES);
                let read = (&mut from).take(PART_BYTES as u64).read_to_end(&mut data).await;
                read.map_err(Error::of_reader)?; // without its last message the stream is refused
                let count = data.len() as u64;
                let part = UploadModuleRequest { data, more_follows: count > 0, ..Default::default() };
                if parts.send(part).await.is_err() || count == 0 {
                    return Ok::<_, Error>(()); // the outcome of the call says why it takes no more
                }
                sent += count;
                progress(sent);
            }
        };
        let deadline = self.stream_deadline();
        let request = self.stream_request(requests);
        let call = async { Ok(within(deadline, async { self.modules().upload_module(request).await }).await?) };
        let (answer, ()) = future::try_join(call, reading).await?;
        Ok(Upload { module: present(answer.into_inner().module)?, sent: true })
    }

    /// The content of a stored module, as it was uploaded.
    pub async fn download_module(&self, name: impl Into<String>) -> Result<Vec<u8>> {
        let name = name.into();
        let mut content = Vec::new();
        loop {
            let request = GetModuleRequest {
                name: name.clone(),
                include_content: true,
                content_offset: content.len() as i64,
                content_limit: PART_BYTES as i64,
            };
            let answer = ask!(self, modules.get_module, request, self.settings.attempts)?;
            content.extend_from_slice(&answer.content);
            if answer.content.is_empty() || content.len() as i64 >= present(answer.module)?.size_bytes {
                return Ok(content);
            }
        }
    }
}
