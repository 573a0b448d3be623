package io.github.xlashape;

import com.google.common.collect.AbstractIterator;
import com.google.common.hash.Hashing;
import com.google.protobuf.UnsafeByteOperations;
import io.github.xlashape.v1.GetModuleRequest;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.PutModuleRequest;
import io.github.xlashape.v1.UploadModuleRequest;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * The calls of {@link XlashapeClient} that have one answer, without waiting for it. A future that fails has an {@link XlashapeException}. Cancelling a
 * future cancels its call.
 */
public final class AsyncXlashapeClient extends AsyncClientMethods {
  /** The bytes of a part of a module. */
  static final int PART_BYTES = 1 << 20;

  AsyncXlashapeClient(Calls calls) {
    super(calls);
  }

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
    return calls.exchange(HloServiceGrpc.getUploadModuleMethod(), parts, answers -> new Upload(Calls.only(answers).getModule(), true));
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
}
