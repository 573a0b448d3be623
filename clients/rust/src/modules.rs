use futures_util::{stream, Stream, StreamExt};
use sha2::{Digest, Sha256};

use crate::client::{ask, within};
use crate::v1::{
    ByteSizesRequest, DeleteModuleRequest, GetModuleRequest, Instruction, InstructionSize, ListInstructionsRequest,
    Module, PutModuleRequest, UploadModuleRequest,
};
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
            ask!(self, modules.put_module, request)?.module
        } else {
            let size_bytes = content.len() as i64;
            let mut parts: Vec<_> = content
                .chunks(PART_BYTES)
                .map(|part| UploadModuleRequest { data: part.to_vec(), ..Default::default() })
                .collect();
            parts[0].sha256 = sha256;
            parts[0].size_bytes = size_bytes;
            let deadline = self.deadline();
            let request = self.request(stream::iter(parts));
            within(deadline, async { self.modules().upload_module(request).await }).await?.into_inner().module
        };
        Ok(Upload { module: present(module)?, sent: true })
    }

    /// Describes a stored module. The code of the error is `NotFound` if the server does not have it, or no longer.
    pub async fn get_module(&self, name: impl Into<String>) -> Result<Module> {
        let request = GetModuleRequest { name: name.into(), ..Default::default() };
        present(ask!(self, modules.get_module, request)?.module)
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
            let answer = ask!(self, modules.get_module, request)?;
            content.extend_from_slice(&answer.content);
            if answer.content.is_empty() || content.len() as i64 >= present(answer.module)?.size_bytes {
                return Ok(content);
            }
        }
    }

    /// Removes a stored module.
    pub async fn delete_module(&self, name: impl Into<String>) -> Result<()> {
        let request = DeleteModuleRequest { name: name.into() };
        ask!(self, modules.delete_module, request)?;
        Ok(())
    }

    /// The instructions of a module. Pages are fetched as they are needed; the stream ends after the first error.
    pub fn list_instructions(
        &self,
        request: ListInstructionsRequest,
    ) -> impl Stream<Item = Result<Instruction>> + Send + use<> {
        let client = self.clone();
        pages(request.page_token.clone(), move |page_token| {
            let (client, request) = (client.clone(), ListInstructionsRequest { page_token, ..request.clone() });
            async move {
                let answer = ask!(client, modules.list_instructions, request)?;
                Ok((answer.instructions, answer.next_page_token))
            }
        })
    }

    /// The bytes that the results of a module's instructions take. Pages are fetched as they are needed; the stream ends after the first error.
    pub fn instruction_sizes(
        &self,
        request: ByteSizesRequest,
    ) -> impl Stream<Item = Result<InstructionSize>> + Send + use<> {
        let client = self.clone();
        pages(request.page_token.clone(), move |page_token| {
            let (client, request) = (client.clone(), ByteSizesRequest { page_token, ..request.clone() });
            async move {
                let answer = ask!(client, modules.byte_sizes, request)?;
                Ok((answer.instructions, answer.next_page_token))
            }
        })
    }
}

fn present(module: Option<Module>) -> Result<Module> {
    module.ok_or_else(|| Error::new(Code::Internal, "INVALID_ANSWER", "the server answered without a module"))
}

/// The items of all pages. `fetch` gives the items of the page of a token, and the token of the next page, which is empty after the last one.
fn pages<T, Fetched>(first: String, fetch: impl Fn(String) -> Fetched + Send) -> impl Stream<Item = Result<T>> + Send
where
    T: Send,
    Fetched: std::future::Future<Output = Result<(Vec<T>, String)>> + Send,
{
    stream::unfold((Some(first), fetch), |(token, fetch)| async {
        let (items, next) = match fetch(token?).await {
            Ok((items, next)) => (items.into_iter().map(Ok).collect(), Some(next).filter(|next| !next.is_empty())),
            Err(error) => (vec![Err(error)], None),
        };
        Some((stream::iter(items), (next, fetch)))
    })
    .flatten()
}
