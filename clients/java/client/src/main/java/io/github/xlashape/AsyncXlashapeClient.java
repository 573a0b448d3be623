package io.github.xlashape;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.github.xlashape.v1.GetModuleRequest;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.PutModuleRequest;
import io.github.xlashape.v1.UploadModuleRequest;
import io.grpc.Status;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;

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
    String digest = sha256(content);
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
    return calls.exchange(
        HloServiceGrpc.getUploadModuleMethod(),
        IntStream.rangeClosed(0, (content.length - 1) / PART_BYTES).map(i -> i * PART_BYTES).mapToObj(start -> {
          ByteString data = ByteString.copyFrom(content, start, Math.min(PART_BYTES, content.length - start));
          return (start == 0 ? first.toBuilder() : UploadModuleRequest.newBuilder()).setData(data).build();
        }).iterator(),
        answers -> new Upload(Calls.only(answers).getModule(), true));
  }

  private static String sha256(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
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
