package io.github.xlashape;

import io.github.xlashape.v1.ByteSizeRequest;
import io.github.xlashape.v1.GetModuleRequest;
import io.github.xlashape.v1.GetModuleResponse;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.ShapeServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongConsumer;
import java.util.function.UnaryOperator;

/**
 * Asks one server, or several that have the same modules. Methods wait for the answer; {@link #async} gives those that do not. Clients are safe for use by
 * several threads at once.
 *
 * <p>The connection is made by the first call, and again whenever it breaks.
 */
public final class XlashapeClient extends ClientMethods implements AutoCloseable {
  /** The version of this package, which calls tell the server. */
  static final String VERSION = "0.1.0";

  private final Runnable disconnect;

  private XlashapeClient(Calls calls, Runnable disconnect) {
    super(calls);
    this.disconnect = disconnect;
  }

  /**
   * Makes a client of the server at an address, with default options.
   *
   * @param address {@code HOST:PORT}, {@code unix:PATH} on Linux, or any other target of gRPC
   * @return a client to close
   * @throws XlashapeException if the address is not valid; the reason is INVALID_ARGUMENT
   */
  public static XlashapeClient connect(String address) {
    return connect(ConnectionOptions.builder(address).build());
  }

  /**
   * Makes a client.
   *
   * @param options where the server is, and how to connect to it
   * @return a client to close
   * @throws XlashapeException if an address is not valid, or a certificate or key cannot be read; the reason is INVALID_ARGUMENT
   */
  public static XlashapeClient connect(ConnectionOptions options) {
    ManagedChannel channel = Channels.open(options);
    Calls calls = new Calls(channel, options.settings.timeout(), options.settings.streamTimeout(), UnaryOperator.identity());
    return new XlashapeClient(calls, channel::shutdownNow);
  }

  /**
   * Gives calls another time, with streams and without.
   *
   * @param timeout the time that each call may take; zero for no bound
   * @return a client with the connection of this one, which alone closes it
   * @throws XlashapeException if the time is negative; the reason is INVALID_ARGUMENT
   */
  public XlashapeClient withTimeout(Duration timeout) {
    XlashapeException.check(!timeout.isNegative(), "INVALID_ARGUMENT", "timeout", "a call cannot take " + timeout);
    return new XlashapeClient(new Calls(calls.channel(), timeout, timeout, calls.change()), () -> {});
  }

  /**
   * Gives calls options of gRPC's: credentials, a compressor, a limit of size, a deadline. {@code client.withCallOptions(options ->
   * options.withCallCredentials(mine)).memory(request)} is a call with credentials of its own.
   *
   * @param change makes the options of a call of those that it would have
   * @return a client with the connection of this one, which alone closes it
   */
  public XlashapeClient withCallOptions(UnaryOperator<CallOptions> change) {
    UnaryOperator<CallOptions> all = options -> change.apply(calls.change().apply(options));
    return new XlashapeClient(new Calls(calls.channel(), calls.timeout(), calls.streamTimeout(), all), () -> {});
  }

  /**
   * Waits until the server answers calls.
   *
   * @param timeout how long to wait
   * @throws XlashapeException the last error, if the server does not answer in this time; at once if it refuses, such as the token
   */
  public void waitUntilReady(Duration timeout) {
    long end = System.nanoTime() + timeout.toNanos();
    while (true) {
      Duration left = Duration.ofNanos(Math.max(end - System.nanoTime(), 1));
      try {
        withTimeout(left).calls.ask(ShapeServiceGrpc.getByteSizeMethod(), ByteSizeRequest.getDefaultInstance(), answer -> answer);
        return;
      } catch (XlashapeException e) {
        if (e.getCode() != Status.Code.UNAVAILABLE || System.nanoTime() >= end) {
          throw e;
        }
      }
      LockSupport.parkNanos(50_000_000);
    }
  }

  /**
   * Gives calls that do not wait.
   *
   * @return calls over the same connection
   */
  @Override
  public AsyncXlashapeClient async() {
    return new AsyncXlashapeClient(calls);
  }

  /**
   * Gives the connection, for generated stubs and for other services of the server such as {@code grpc.health.v1.Health}. Their errors are those of gRPC;
   * {@link XlashapeException#of} reads them.
   *
   * @return the channel
   */
  public Channel channel() {
    return calls.channel();
  }

  /** Ends the connection and all calls. A client that another one gave leaves both as they are. */
  @Override
  public void close() {
    disconnect.run();
  }

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
    GetModuleRequest.Builder request = GetModuleRequest.newBuilder().setName(name).setIncludeContent(true).setContentLimit(AsyncXlashapeClient.PART_BYTES);
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
}
