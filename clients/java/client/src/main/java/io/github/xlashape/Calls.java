package io.github.xlashape;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/** Calls of all kinds, whose errors are {@link XlashapeException}s. Cancelling a future cancels its call. */
record Calls(Channel channel, Duration timeout, Duration streamTimeout, UnaryOperator<CallOptions> change) {

  private CallOptions within(Duration timeout) {
    return change.apply(timeout.isZero() ? CallOptions.DEFAULT : CallOptions.DEFAULT.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS));
  }

  /** The result of `read` on the answer. */
  <Q, A, R> R ask(MethodDescriptor<Q, A> method, Q request, Function<A, R> read) {
    try {
      return read.apply(ClientCalls.blockingUnaryCall(channel, method, within(timeout), request));
    } catch (StatusRuntimeException e) {
      throw XlashapeException.of(e);
    }
  }

  <Q, A, R> CompletableFuture<R> askAsync(MethodDescriptor<Q, A> method, Q request, Function<A, R> read) {
    Reader<Q, A, R> reader = new Reader<>(answers -> read.apply(Answers.only(answers)), call -> {});
    ClientCalls.asyncUnaryCall(channel.newCall(method, within(timeout)), request, reader);
    return reader.result;
  }

  /** The result of `read` on all answers. Requests are sent as fast as the connection takes them, and answers are received meanwhile. */
  <Q, A, R> CompletableFuture<R> exchange(MethodDescriptor<Q, A> method, Iterator<Q> requests, Function<List<A>, R> read) {
    CompletableFuture<R> result = new CompletableFuture<>();
    AtomicBoolean ended = new AtomicBoolean();
    Reader<Q, A, R> reader = new Reader<>(result, new ArrayList<>(), read, call -> call.setOnReadyHandler(() -> {
      try {
        while (!ended.get() && call.isReady()) {
          ended.set(!requests.hasNext());
          if (ended.get()) {
            call.onCompleted();
          } else {
            call.onNext(requests.next());
          }
        }
      } catch (RuntimeException | Error e) {
        ended.set(true);
        result.completeExceptionally(XlashapeException.of(e));
        call.cancel("the requests failed", e);
      }
    }));
    ClientCalls.asyncBidiStreamingCall(channel.newCall(method, within(streamTimeout)), reader);
    return reader.result;
  }

  /** Collects the answers of a call. `start` is told of the call before it begins. */
  private record Reader<Q, A, R>(
      CompletableFuture<R> result, List<A> answers, Function<List<A>, R> read, Consumer<ClientCallStreamObserver<Q>> start)
      implements ClientResponseObserver<Q, A> {
    Reader(Function<List<A>, R> read, Consumer<ClientCallStreamObserver<Q>> start) {
      this(new CompletableFuture<>(), new ArrayList<>(), read, start);
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<Q> call) {
      start.accept(call);
      whenCancelled(result, () -> call.cancel("cancelled", null));
    }

    @Override
    public void onNext(A answer) {
      answers.add(answer);
    }

    @Override
    public void onError(Throwable error) {
      result.completeExceptionally(XlashapeException.of(error));
    }

    @Override
    public void onCompleted() {
      try {
        result.complete(read.apply(answers));
      } catch (RuntimeException | Error e) {
        onError(e);
      }
    }
  }

  /** What `next` asks for the result of `first`, or `otherwise` for its error. Errors are not wrapped, and cancelling the result cancels both. */
  static <T, R> CompletableFuture<R> chain(
      CompletableFuture<T> first, Function<T, CompletableFuture<R>> next, Function<XlashapeException, CompletableFuture<R>> otherwise) {
    CompletableFuture<R> result = new CompletableFuture<>();
    whenCancelled(result, () -> first.cancel(true));
    first.handle((value, error) -> error == null ? next.apply(value) : otherwise.apply(XlashapeException.of(error))).thenCompose(second -> {
      whenCancelled(result, () -> second.cancel(true));
      return second;
    }).whenComplete((value, error) -> {
      if (error == null) {
        result.complete(value);
      } else {
        result.completeExceptionally(XlashapeException.of(error));
      }
    });
    return result;
  }

  /** What `next` asks for the result of `first`. */
  static <T, R> CompletableFuture<R> then(CompletableFuture<T> first, Function<T, CompletableFuture<R>> next) {
    return chain(first, next, CompletableFuture::failedFuture);
  }

  private static void whenCancelled(CompletableFuture<?> future, Runnable action) {
    future.whenComplete((result, error) -> {
      if (future.isCancelled()) {
        action.run();
      }
    });
  }

  /** The result of a future. A thread that is interrupted meanwhile cancels the future. */
  static <T> T await(CompletableFuture<T> future) {
    try {
      return future.get();
    } catch (InterruptedException e) {
      future.cancel(true);
      Thread.currentThread().interrupt();
      throw XlashapeException.of(Status.CANCELLED.withDescription("the thread was interrupted").withCause(e).asRuntimeException());
    } catch (ExecutionException e) {
      throw XlashapeException.of(e);
    }
  }
}
