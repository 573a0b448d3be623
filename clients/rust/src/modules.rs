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
        if content.len() > PART_BYTES {
            let size_bytes = content.len() as i64;
            return self.send(UploadModuleRequest { sha256, size_bytes, ..Default::default() }, content, |_| {}).await;
        }
        let request = PutModuleRequest { data: content.to_vec(), sha256 };
        let answer = ask!(self, modules.put_module, request, self.settings.attempts)?;
        Ok(Upload { module: present(answer.module)?, sent: true })
    }

    /// Stores a module that is sent while it is read, in parts of 1 MiB, whether or not the server has it. `progress` is told how many bytes were sent, after
    /// each part. A reader that fails ends the call, and stores nothing: `source()` of the error is that of the reader.
    pub async fn upload_module_from(&self, from: impl AsyncRead + Unpin, progress: impl FnMut(u64)) -> Result<Upload> {
        self.send(UploadModuleRequest::default(), from, progress).await
    }

    /// Sends a module in parts. `part` has what else the first message says.
    async fn send(
        &self,
        mut part: UploadModuleRequest,
        mut from: impl AsyncRead + Unpin,
        mut progress: impl FnMut(u64),
    ) -> Result<Upload> {
        let (parts, mut taken) = mpsc::channel(1);
        let reading = async move {
            let mut sent = 0;
            loop {
                let read = (&mut from).take(PART_BYTES as u64).read_to_end(&mut part.data).await;
                read.map_err(Error::of_reader)?; // without its last message the stream is refused
                let count = part.data.len() as u64;
                part.more_follows = count > 0;
                if parts.send(std::mem::take(&mut part)).await.is_err() || count == 0 {
                    return Ok::<_, Error>(()); // the outcome of the call says why it takes no more
                }
                sent += count;
                progress(sent);
            }
        };
        let requests = stream::poll_fn(move |context| taken.poll_recv(context));
        let (mut modules, (request, deadline)) = (self.modules(), self.stream_request(requests));
        let call = async { Ok(within(deadline, modules.upload_module(request)).await?) };
        let (answer, ()) = future::try_join(call, reading).await?;
        Ok(Upload { module: present(answer.into_inner().module)?, sent: true })
    }

    /// The content of a stored module, as it was uploaded.
    pub async fn download_module(&self, name: impl Into<String>) -> Result<Vec<u8>> {
        let (name, mut content, content_limit) = (name.into(), Vec::new(), PART_BYTES as i64);
        let mut request = GetModuleRequest { name, include_content: true, content_offset: 0, content_limit };
        loop {
            request.content_offset = content.len() as i64;
            let answer = ask!(self, modules.get_module, request.clone(), self.settings.attempts)?;
            content.extend_from_slice(&answer.content);
            if answer.content.is_empty() || content.len() as i64 >= present(answer.module)?.size_bytes {
                return Ok(content);
            }
        }
    }
}
