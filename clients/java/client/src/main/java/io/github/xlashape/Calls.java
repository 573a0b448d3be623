package io.github.xlashape;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Iterator;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.jspecify.annotations.Nullable;

/** Calls of all kinds, whose errors are {@link XlashapeException}s. */
record Calls(Channel channel, Duration timeout) {

  private CallOptions options() {
    return timeout.isZero() ? CallOptions.DEFAULT : CallOptions.DEFAULT.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS);
  }

  <Q, A> A ask(MethodDescriptor<Q, A> method, Q request) {
    try {
      return ClientCalls.blockingUnaryCall(channel, method, options(), request);
    } catch (StatusRuntimeException e) {
      throw XlashapeException.of(e);
    }
  }

  /** The result of `read` on the answer. The future's cancellation cancels the call. */
  <Q, A, R> CompletableFuture<R> askAsync(MethodDescriptor<Q, A> method, Q request, Function<A, R> read) {
    CompletableFuture<R> future = new CompletableFuture<>();
    ClientCall<Q, A> call = channel.newCall(method, options());
    cancelWith(future, call);
    ClientCalls.asyncUnaryCall(call, request, new StreamObserver<A>() {
      private @Nullable A answer;

      @Override
      public void onNext(A value) {
        answer = value;
      }

      @Override
      public void onError(Throwable error) {
        future.completeExceptionally(XlashapeException.of(error));
      }

      @Override
      public void onCompleted() {
        if (answer == null) {
          onError(Status.INTERNAL.withDescription("the server ended the call without an answer").asRuntimeException());
          return;
        }
        try {
          future.complete(read.apply(answer));
        } catch (RuntimeException | Error e) {
          future.completeExceptionally(XlashapeException.of(e));
        }
      }
    });
    return future;
  }

  /** The answers as they come. Closing the stream cancels the call. */
  <Q, A> Stream<A> answers(MethodDescriptor<Q, A> method, Q request) {
    Context.CancellableContext context = Context.current().withCancellation();
    Context previous = context.attach();
    Iterator<A> messages;
    try {
      messages = ClientCalls.blockingServerStreamingCall(channel, method, options(), request);
    } finally {
      context.detach(previous);
    }
    return streamOf(new Iterator<A>() {
      @Override
      public boolean hasNext() {
        try {
          boolean hasNext = messages.hasNext();
          if (!hasNext) {
            context.close();
          }
          return hasNext;
        } catch (StatusRuntimeException e) {
          context.close();
          throw XlashapeException.of(e);
        }
      }

      @Override
      public A next() {
        return messages.next();
      }
    }).onClose(context::close);
  }

  static <T> Stream<T> streamOf(Iterator<T> items) {
    return StreamSupport.stream(Spliterators.spliteratorUnknownSize(items, Spliterator.ORDERED | Spliterator.NONNULL), false);
  }

  /** Sends requests as fast as the connection takes them, and reads answers meanwhile. The future's cancellation cancels the call. */
  <Q, A> CompletableFuture<@Nullable Void> exchange(MethodDescriptor<Q, A> method, Iterator<Q> requests, Consumer<A> read) {
    CompletableFuture<@Nullable Void> future = new CompletableFuture<>();
    ClientCall<Q, A> call = channel.newCall(method, options());
    cancelWith(future, call);
    call.start(new ClientCall.Listener<A>() {
      private boolean isComplete;

      @Override
      public void onReady() {
        try {
          while (!isComplete && call.isReady()) {
            if (requests.hasNext()) {
              call.sendMessage(requests.next());
            } else {
              isComplete = true;
              call.halfClose();
            }
          }
        } catch (RuntimeException | Error e) {
          fail(e);
        }
      }

      @Override
      public void onMessage(A answer) {
        try {
          read.accept(answer);
          call.request(1);
        } catch (RuntimeException | Error e) {
          fail(e);
        }
      }

      private void fail(Throwable error) {
        isComplete = true;
        future.completeExceptionally(XlashapeException.of(error));
        call.cancel("the client failed", error);
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        if (status.isOk()) {
          future.complete(null);
        } else {
          future.completeExceptionally(XlashapeException.of(status.asRuntimeException(trailers)));
        }
      }
    }, new Metadata());
    call.request(1);
    return future;
  }

  private static void cancelWith(CompletableFuture<?> future, ClientCall<?, ?> call) {
    future.whenComplete((result, error) -> {
      if (future.isCancelled()) {
        call.cancel("cancelled", null);
      }
    });
  }

  /** Asks `read` when `first` is there. Errors are not wrapped, and cancelling the result cancels `first` too. */
  static <T, R> CompletableFuture<R> then(CompletableFuture<T> first, Function<T, R> read) {
    return thenAsk(first, value -> CompletableFuture.completedFuture(read.apply(value)));
  }

  /** As `then`, with a second call. */
  static <T, R> CompletableFuture<R> thenAsk(CompletableFuture<T> first, Function<T, CompletableFuture<R>> next) {
    return thenAsk(first, next, CompletableFuture::failedFuture);
  }

  /** As `then`, with a second call, and with another one after an error. */
  static <T, R> CompletableFuture<R> thenAsk(
      CompletableFuture<T> first, Function<T, CompletableFuture<R>> next, Function<XlashapeException, CompletableFuture<R>> otherwise) {
    CompletableFuture<R> result = new CompletableFuture<>();
    cancelWith(result, first);
    first.whenComplete((value, error) -> {
      try {
        CompletableFuture<R> second = error == null ? next.apply(value) : otherwise.apply(XlashapeException.of(error));
        cancelWith(result, second);
        second.whenComplete((answer, failure) -> {
          if (failure == null) {
            result.complete(answer);
          } else {
            result.completeExceptionally(XlashapeException.of(failure));
          }
        });
      } catch (RuntimeException | Error e) {
        result.completeExceptionally(XlashapeException.of(e));
      }
    });
    return result;
  }

  private static void cancelWith(CompletableFuture<?> future, CompletableFuture<?> needed) {
    future.whenComplete((result, error) -> {
      if (future.isCancelled()) {
        needed.cancel(true);
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
