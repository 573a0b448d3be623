package io.github.xlashape;

import io.github.xlashape.v1.ByteSizeRequest;
import io.github.xlashape.v1.ShapeServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
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
}
