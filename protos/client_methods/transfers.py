"""The functions that store modules and fetch their content. They join three RPCs: GetModule says whether the server has
a module, PutModule takes a small one in one message, and UploadModule takes others in parts.

They stand here as C++, Java and TypeScript have them, each beside what the functions take and return. Those for Go and
Rust are written by hand.
"""

from __future__ import annotations

CPP_TYPES = """\
/// Is told how many bytes of a module were sent, after each part.
using Progress = std::function<void(std::int64_t)>;

/// A module that was uploaded.
struct Uploaded {
  /// The server's description of it. Its name is what requests take: `request.mutable_module()->set_name(uploaded.module.name())`.
  v1::Module module;
  /// Whether the content was sent. Not if the server had it already.
  bool sent = false;
};
"""

CPP_DECLARATIONS = """\
  /// Stores a module: HLO text, or a serialized xla.HloModuleProto or xla.HloProto. A module that the server has already is not sent again.
  Uploaded UploadModule(std::string_view content, const Progress& progress = {}) const;

  /// Stores a module that is sent while it is read, in parts of 1 MiB, whether or not the server has it.
  Uploaded UploadModule(std::istream& from, const Progress& progress = {}) const;

  /// The content of a stored module, as it was uploaded.
  std::string DownloadModule(const std::string& name) const;

  /// Writes the content of a stored module, and returns the number of bytes. It ends early when `to` fails, as its state says then.
  std::int64_t DownloadModule(const std::string& name, std::ostream& to) const;
"""

CPP = """\
namespace {

/// The size of a part of a module that is sent or fetched in several messages.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

/// Sends a module in parts, which `read` gives until an empty one. `part` has what else the first message says.
template <class Read>
Uploaded Send(const Calls& calls, v1::UploadModuleRequest part, const Progress& progress, Read read) {
  Calls::Context context(calls, calls.stream_timeout);
  v1::UploadModuleResponse answer;
  const auto stream = calls.stub<v1::HloService::Stub>(context).UploadModule(&context, &answer);
  std::int64_t sent = 0;
  try {
    for (read(part.mutable_data()); !part.data().empty(); read(part.mutable_data())) {
      part.set_more_follows(true);
      if (!stream->Write(part)) break;  // Finish gives the reason
      sent += static_cast<std::int64_t>(part.data().size());
      if (progress) progress(sent);
      part.Clear();
    }
  } catch (...) {
    context.TryCancel();  // without its last message the stream is refused
    stream->Finish();
    throw;
  }
  stream->WriteLast(part, grpc::WriteOptions());
  Check(stream->Finish());
  return {std::move(*answer.mutable_module()), true};
}

}  // namespace

Uploaded ClientMethods::UploadModule(std::string_view content, const Progress& progress) const {
  const std::string digest = Sha256(content);
  try {
    return {GetModule("modules/" + digest), false};
  } catch (const Error& error) {
    if (error.code() != grpc::StatusCode::NOT_FOUND) throw;
  }
  if (content.size() <= kPartBytes) {
    v1::PutModuleRequest request;
    request.set_data(content.data(), content.size());
    request.set_sha256(digest);
    v1::PutModuleResponse answer = calls_->Ask(&v1::HloService::Stub::PutModule, request);
    if (progress) progress(static_cast<std::int64_t>(content.size()));
    return {std::move(*answer.mutable_module()), true};
  }
  v1::UploadModuleRequest first;
  first.set_sha256(digest);
  first.set_size_bytes(static_cast<std::int64_t>(content.size()));
  return Send(*calls_, std::move(first), progress, [content](std::string* part) mutable {
    *part = content.substr(0, kPartBytes);
    content.remove_prefix(part->size());
  });
}

Uploaded ClientMethods::UploadModule(std::istream& from, const Progress& progress) const {
  return Send(*calls_, {}, progress, [&from](std::string* part) {
    part->resize(kPartBytes);
    from.read(part->data(), kPartBytes);
    part->resize(static_cast<std::size_t>(from.gcount()));
    if (from.bad()) Refuse("INVALID_ARGUMENT", "from", "cannot read the module");
  });
}

std::string ClientMethods::DownloadModule(const std::string& name) const {
  std::ostringstream content;
  DownloadModule(name, content);
  return content.str();
}

std::int64_t ClientMethods::DownloadModule(const std::string& name, std::ostream& to) const {
  v1::GetModuleRequest request;
  request.set_name(name);
  request.set_include_content(true);
  request.set_content_limit(kPartBytes);
  std::int64_t written = 0;
  while (true) {
    request.set_content_offset(written);
    const v1::GetModuleResponse answer = calls_->Ask(&v1::HloService::Stub::GetModule, request);
    const auto size = static_cast<std::streamsize>(answer.content().size());
    if (!to.write(answer.content().data(), size)) return written;
    written += size;
    if (size == 0 || written >= answer.module().size_bytes()) return written;
  }
}
"""

TYPESCRIPT_TYPES = """\
/** The bytes of a part of a module that is sent in several messages. */
const PART_BYTES = 1 << 20;

/** The bytes of a message that a server takes by default. */
const MESSAGE_BYTES = 64 << 20;

/** A module on the server. */
export interface Uploaded {
  module: Module;
  /** Whether the content was sent. It is not if the server has the module already. */
  sent: boolean;
}

/** What the content of a module is read from: a file, a stream of the web, or in Node any readable stream, such as that of `fs.createReadStream`. */
export type ModuleSource = AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | Blob;

/** What holds for an upload of what is read. */
export interface UploadOptions extends CallOptions {
  /** Is told how many bytes were sent, after each part. */
  onProgress?: (sent: number) => void;
  /**
   * The bytes that a module may have which is held as a whole, over Connect. Default: 64 MiB, what a server takes in one message unless it is told
   * otherwise.
   */
  maxBytes?: number;
}
"""

TYPESCRIPT_METHODS = """\
  /**
   * Stores a module: HLO text, the bytes of an `xla.HloModuleProto` or `xla.HloProto`, or a file (a `Blob`, in Node from `fs.openAsBlob`). A module that the
   * server has already is not sent again, unless the page is not in a secure context: there browsers do not compute digests.
   */
  async uploadModule(content: string | Uint8Array | Blob, options?: CallOptions): Promise<Uploaded> {
    const data = typeof content === "string" ? new TextEncoder().encode(content)
      : content instanceof Uint8Array ? content : new Uint8Array(await content.arrayBuffer());
    const sha256 = await hexDigest(data);
    const known = sha256 && await this.getModule(`modules/${sha256}`, options).catch((error: unknown) =>
      error instanceof XlashapeError && error.code === Code.NotFound ? undefined : Promise.reject(error));
    if (known) {
      return { module: known, sent: false };
    }
    const { module } = this.hasStreams && data.length > PART_BYTES
      ? await this.modules.uploadModule(messages(parts([data]), { sha256, sizeBytes: BigInt(data.length) }), options)
      : await this.modules.putModule({ data, sha256 }, options);
    return { module: present(module), sent: true };
  }

  /**
   * Stores a module that is sent while it is read, in parts of at most 1 MiB, whether or not the server has it. An error of the source ends the call,
   * stores nothing, and is what the promise rejects with.
   *
   * Over Connect there are no streams: there the module is sent in one message when all of it was read, and one
   * of more than `maxBytes` is not read to its end.
   */
  async uploadModuleFrom(source: ModuleSource, { onProgress, maxBytes = MESSAGE_BYTES, ...options }: UploadOptions = {}): Promise<Uploaded> {
    if (!this.hasStreams) {
      const data = await joined(chunks(source), maxBytes);
      const { module } = await this.modules.putModule({ data }, options);
      onProgress?.(data.length);
      return { module: present(module), sent: true };
    }
    let failure: { error: unknown } | undefined;
    const watched = async function* () {
      try {
        yield* parts(chunks(source), onProgress);
      } catch (error) {
        failure = { error };
        throw error; // without its last message the stream is refused
      }
    };
    const request = messages(watched());
    try {
      const { module } = await this.modules.uploadModule(request, options);
      return { module: present(module), sent: true };
    } catch (error) {
      throw failure === undefined ? error : failure.error;
    } finally {
      void request.return(undefined).catch(() => undefined); // closes the source of a call that has ended early
    }
  }

  /** The content of a stored module as it was uploaded, in parts. */
  async *moduleParts(name: string, options?: CallOptions): AsyncGenerator<Uint8Array> {
    let contentOffset = 0n;
    for (;;) {
      const request = { name, includeContent: true, contentOffset, contentLimit: BigInt(PART_BYTES) };
      const { module, content } = await this.modules.getModule(request, options);
      contentOffset += BigInt(content.length);
      if (content.length > 0) {
        yield content;
      }
      if (content.length === 0 || contentOffset >= present(module).sizeBytes) {
        return;
      }
    }
  }

  /** The content of a stored module as it was uploaded. */
  async downloadModule(name: string, options?: CallOptions): Promise<Uint8Array> {
    return joined(this.moduleParts(name, options));
  }
"""

TYPESCRIPT = """\
/** The messages of an upload. `first` is what else the first one says. */
async function* messages(
  content: AsyncIterable<Uint8Array>, first: MessageInitShape<typeof UploadModuleRequestSchema> = {},
): AsyncGenerator<MessageInitShape<typeof UploadModuleRequestSchema>> {
  let others = first;
  for await (const data of content) {
    yield { ...others, data, moreFollows: true };
    others = {};
  }
  yield others;
}

/** Content in parts of at most 1 MiB. `onProgress` is told how much was taken, when the next part is asked for. */
async function* parts(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, onProgress?: (sent: number) => void,
): AsyncGenerator<Uint8Array> {
  let sent = 0;
  for await (const chunk of content) {
    for (let start = 0; start < chunk.length; start += PART_BYTES) {
      const data = chunk.subarray(start, start + PART_BYTES);
      yield data;
      sent += data.length;
      onProgress?.(sent);
    }
  }
}

/** What a source gives. Not every browser iterates over streams. */
async function* chunks(source: ModuleSource): AsyncGenerator<Uint8Array> {
  if (Symbol.asyncIterator in source) {
    yield* source;
    return;
  }
  const reader = (source instanceof Blob ? source.stream() : source).getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      yield next.value;
    }
  } finally {
    await reader.cancel();
  }
}

async function joined(chunks: AsyncIterable<Uint8Array>, maxBytes = Infinity): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    const most = `expected at most ${maxBytes} bytes in one message, found more`;
    check(bytes <= maxBytes, "LIMIT_EXCEEDED", "data", most, Code.ResourceExhausted);
    all.push(chunk);
  }
  return new Uint8Array(await new Blob(all as BlobPart[]).arrayBuffer());
}

/** The SHA-256 in hexadecimal; empty where it cannot be computed. */
async function hexDigest(data: Uint8Array): Promise<string> {
  const subtle = globalThis.crypto.subtle as SubtleCrypto | undefined; // browsers have it in secure contexts alone
  const digest = await subtle?.digest("SHA-256", data as Uint8Array<ArrayBuffer>);
  return digest ? Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("") : "";
}
"""

JAVA = """\
  /**
   * Stores a module. A module that the server has already is not sent again.
   *
   * @param content HLO text, or a serialized xla.HloModuleProto or xla.HloProto; it must not change meanwhile
   * @return the module, and whether it was sent
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public Upload uploadModule(byte[] content) {
    return Calls.await(async().uploadModule(content));
  }

  /**
   * Stores a module of a file. A module that the server has already is not sent again.
   *
   * @param file a file of HLO text, or of a serialized xla.HloModuleProto or xla.HloProto
   * @return the module, and whether it was sent
   * @throws IOException if the file cannot be read
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public Upload uploadModule(Path file) throws IOException {
    return uploadModule(Files.readAllBytes(file));
  }

  /**
   * Stores a module that is sent while it is read, in parts of 1 MiB, whether or not the server has it.
   *
   * @param from where its content is read, to the end, by a thread of gRPC's; it is not closed
   * @param progress is told by that thread how many bytes were sent, with each part
   * @return the module
   * @throws IOException if it cannot be read
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public Upload uploadModule(InputStream from, LongConsumer progress) throws IOException {
    try {
      return Calls.await(async().uploadModule(from, progress));
    } catch (XlashapeException e) {
      if (e.getCause() instanceof UncheckedIOException reading) {
        throw reading.getCause();
      }
      throw e;
    }
  }

  /**
   * Stores a module. A module that the server has already is not sent again.
   *
   * @param text HLO text
   * @return the module, and whether it was sent
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public Upload uploadModuleText(String text) {
    return uploadModule(text.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * Writes the content of a stored module, as it was uploaded. It comes in parts of 1 MiB.
   *
   * @param name {@code modules/{sha256}}, the name of an uploaded module
   * @param to where to write it; it is not closed
   * @return the bytes that were written
   * @throws IOException if they cannot be written
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public long downloadModule(String name, OutputStream to) throws IOException {
    GetModuleRequest.Builder request = GetModuleRequest.newBuilder().setName(name).setIncludeContent(true).setContentLimit(AsyncClientMethods.PART_BYTES);
    long written = 0;
    while (true) {
      GetModuleResponse answer = calls.ask(HloServiceGrpc.getGetModuleMethod(), request.setContentOffset(written).build(), part -> part);
      answer.getContent().writeTo(to);
      written += answer.getContent().size();
      if (answer.getContent().isEmpty() || written >= answer.getModule().getSizeBytes()) {
        return written;
      }
    }
  }
"""

JAVA_ASYNC = """\
  /** The bytes of a part of a module. */
  static final int PART_BYTES = 1 << 20;

  /**
   * Stores a module. A module that the server has already is not sent again.
   *
   * @param content HLO text, or a serialized xla.HloModuleProto or xla.HloProto; it must not change meanwhile
   * @return the module, and whether it was sent
   */
  public CompletableFuture<Upload> uploadModule(byte[] content) {
    String digest = Hashing.sha256().hashBytes(content).toString();
    GetModuleRequest known = GetModuleRequest.newBuilder().setName("modules/" + digest).build();
    return Calls.chain(
        calls.askAsync(HloServiceGrpc.getGetModuleMethod(), known, answer -> new Upload(answer.getModule(), false)),
        CompletableFuture::completedFuture,
        error -> error.getCode() == Status.Code.NOT_FOUND ? send(content, digest) : CompletableFuture.failedFuture(error));
  }

  private CompletableFuture<Upload> send(byte[] content, String digest) {
    if (content.length <= PART_BYTES) {
      PutModuleRequest request = PutModuleRequest.newBuilder().setData(UnsafeByteOperations.unsafeWrap(content)).setSha256(digest).build();
      return calls.askAsync(HloServiceGrpc.getPutModuleMethod(), request, answer -> new Upload(answer.getModule(), true));
    }
    UploadModuleRequest first = UploadModuleRequest.newBuilder().setSha256(digest).setSizeBytes(content.length).build();
    return send(new ByteArrayInputStream(content), first, sent -> {});
  }

  private CompletableFuture<Upload> send(InputStream from, UploadModuleRequest first, LongConsumer progress) {
    Iterator<UploadModuleRequest> parts = new AbstractIterator<>() {
      private final UploadModuleRequest.Builder part = first.toBuilder().setMoreFollows(true);
      private long sent;

      @Override
      protected @Nullable UploadModuleRequest computeNext() {
        if (!part.getMoreFollows()) {
          return endOfData();
        }
        try {
          part.setData(UnsafeByteOperations.unsafeWrap(from.readNBytes(PART_BYTES)));
        } catch (IOException e) {
          throw new UncheckedIOException(e); // without its last message the stream is refused
        }
        if (part.setMoreFollows(!part.getData().isEmpty()).getMoreFollows()) {
          sent += part.getData().size();
          progress.accept(sent);
        }
        UploadModuleRequest request = part.build();
        part.clearSha256().clearSizeBytes();
        return request;
      }
    };
    return calls.exchange(HloServiceGrpc.getUploadModuleMethod(), parts, answers -> new Upload(Answers.only(answers).getModule(), true));
  }

  /**
   * Stores a module that is sent while it is read, in parts of 1 MiB, whether or not the server has it.
   *
   * @param from where its content is read, to the end, by a thread of gRPC's; it is not closed
   * @param progress is told how many bytes were sent, with each part
   * @return the module; the cause of an error may be the {@link UncheckedIOException} of reading
   */
  public CompletableFuture<Upload> uploadModule(InputStream from, LongConsumer progress) {
    return send(from, UploadModuleRequest.getDefaultInstance(), progress);
  }

  /**
   * Stores a module. A module that the server has already is not sent again.
   *
   * @param text HLO text
   * @return the module, and whether it was sent
   */
  public CompletableFuture<Upload> uploadModuleText(String text) {
    return uploadModule(text.getBytes(StandardCharsets.UTF_8));
  }
"""
