package io.github.xlashape;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.github.xlashape.v1.EvaluateMapBatchRequest;
import io.github.xlashape.v1.EvaluateMapRequest;
import io.github.xlashape.v1.GetModuleRequest;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.IndexingServiceGrpc;
import io.github.xlashape.v1.LinearIndexRequest;
import io.github.xlashape.v1.LinearIndicesRequest;
import io.github.xlashape.v1.LinearOrder;
import io.github.xlashape.v1.MapInput;
import io.github.xlashape.v1.MultiIndexRequest;
import io.github.xlashape.v1.MultiIndicesRequest;
import io.github.xlashape.v1.PutModuleRequest;
import io.github.xlashape.v1.PutModuleResponse;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.ShapeServiceGrpc;
import io.github.xlashape.v1.UploadModuleRequest;
import io.github.xlashape.v1.UploadModuleResponse;
import io.grpc.Status;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/** Questions of any size: in one message if they are small, as a stream if they are not. */
final class Bulk {
  /** The numbers of one message: 2 MiB, half of what gRPC receives by default. */
  private static final int UNARY_NUMBERS = 1 << 18;

  /** The questions of one message whose answers are several times as large. */
  private static final int UNARY_ANSWERS = 1 << 14;

  /** The bytes of a part of a module. */
  static final int PART_BYTES = 1 << 20;

  private Bulk() {}

  static CompletableFuture<long[]> linearIndices(Calls calls, ShapeInput shape, LinearOrder order, long[] indices) {
    if (indices.length <= UNARY_NUMBERS) {
      LinearIndexRequest.Builder request = LinearIndexRequest.newBuilder().setShape(shape).setOrder(order);
      addAll(indices, 0, indices.length, request::addIndices);
      return calls.askAsync(ShapeServiceGrpc.getLinearIndexMethod(), request.build(), answer -> {
        Longs positions = new Longs(answer.getPositionsCount());
        positions.append(answer.getPositionsCount(), answer::getPositions);
        return positions.toArray();
      });
    }
    return Calls.thenAsk(rank(calls, shape), rank -> {
      Longs positions = new Longs(indices.length / Math.max(rank, 1));
      Iterator<LinearIndicesRequest> requests = new Parts<>(indices.length, rank, UNARY_NUMBERS) {
        @Override
        LinearIndicesRequest part(int start, int end) {
          LinearIndicesRequest.Builder part = LinearIndicesRequest.newBuilder();
          if (start == 0) {
            part.setShape(shape).setOrder(order);
          }
          addAll(indices, start, end, part::addIndices);
          return part.build();
        }
      };
      return Calls.then(
          calls.exchange(ShapeServiceGrpc.getLinearIndicesMethod(), requests,
              answer -> positions.append(answer.getPositionsCount(), answer::getPositions)),
          done -> positions.toArray());
    });
  }

  static CompletableFuture<ElementIndices> multiIndices(Calls calls, ShapeInput shape, LinearOrder order, long[] positions) {
    Longs indices = new Longs(positions.length);
    Booleans isElement = new Booleans(positions.length);
    if (positions.length <= UNARY_ANSWERS) {
      MultiIndexRequest.Builder request = MultiIndexRequest.newBuilder().setShape(shape).setOrder(order);
      addAll(positions, 0, positions.length, request::addPositions);
      return calls.askAsync(ShapeServiceGrpc.getMultiIndexMethod(), request.build(), answer -> {
        indices.append(answer.getIndicesCount(), answer::getIndices);
        isElement.append(answer.getIsElementCount(), answer::getIsElement);
        return new ElementIndices(indices.toArray(), isElement.toArray());
      });
    }
    return Calls.thenAsk(rank(calls, shape), rank -> {
      Iterator<MultiIndicesRequest> requests = new Parts<>(positions.length, 1, UNARY_NUMBERS / (rank + 1)) {
        @Override
        MultiIndicesRequest part(int start, int end) {
          MultiIndicesRequest.Builder part = MultiIndicesRequest.newBuilder();
          if (start == 0) {
            part.setShape(shape).setOrder(order);
          }
          addAll(positions, start, end, part::addPositions);
          return part.build();
        }
      };
      return Calls.then(
          calls.exchange(ShapeServiceGrpc.getMultiIndicesMethod(), requests, answer -> {
            indices.append(answer.getIndicesCount(), answer::getIndices);
            isElement.append(answer.getIsElementCount(), answer::getIsElement);
          }),
          done -> new ElementIndices(indices.toArray(), isElement.toArray()));
    });
  }

  static CompletableFuture<MapValues> evaluateMap(Calls calls, MapInput map, long[] points) {
    Longs results = new Longs(points.length);
    Booleans inDomain = new Booleans(points.length);
    if (points.length <= UNARY_ANSWERS) {
      EvaluateMapRequest.Builder request = EvaluateMapRequest.newBuilder().setMap(map);
      addAll(points, 0, points.length, request::addPoints);
      return calls.askAsync(IndexingServiceGrpc.getEvaluateMapMethod(), request.build(), answer -> {
        results.append(answer.getResultsCount(), answer::getResults);
        inDomain.append(answer.getInDomainCount(), answer::getInDomain);
        return new MapValues(results.toArray(), inDomain.toArray());
      });
    }
    int width;
    try {
      width = variables(map);
    } catch (XlashapeException e) {
      return CompletableFuture.failedFuture(e);
    }
    long most = (long) UNARY_ANSWERS * Math.max(width, 1);
    Iterator<EvaluateMapBatchRequest> requests = new Parts<>(points.length, width, (int) Math.min(most, points.length)) {
      @Override
      EvaluateMapBatchRequest part(int start, int end) {
        EvaluateMapBatchRequest.Builder part = EvaluateMapBatchRequest.newBuilder();
        if (start == 0) {
          part.setMap(map);
        }
        addAll(points, start, end, part::addPoints);
        return part.build();
      }
    };
    return Calls.then(
        calls.exchange(IndexingServiceGrpc.getEvaluateMapBatchMethod(), requests, answer -> {
          results.append(answer.getResultsCount(), answer::getResults);
          inDomain.append(answer.getInDomainCount(), answer::getInDomain);
        }),
        done -> new MapValues(results.toArray(), inDomain.toArray()));
  }

  private static int variables(MapInput map) {
    if (map.hasMap()) {
      IndexingMap message = map.getMap();
      return message.getDimensionsCount() + message.getRangesCount() + message.getRuntimeCount();
    }
    return EvaluableMap.parse(map.getText()).variables();
  }

  private static CompletableFuture<Integer> rank(Calls calls, ShapeInput shape) {
    return calls.askAsync(
        ShapeServiceGrpc.getDescribeShapeMethod(),
        Requests.describe(List.of(shape)),
        answer -> (int) Requests.same(answer.getDescriptionsList(), 1).get(0).getRank());
  }

  static CompletableFuture<Upload> upload(Calls calls, byte[] content) {
    String digest = sha256(content);
    GetModuleRequest known = GetModuleRequest.newBuilder().setName("modules/" + digest).build();
    return Calls.thenAsk(
        calls.askAsync(HloServiceGrpc.getGetModuleMethod(), known, answer -> new Upload(answer.getModule(), false)),
        CompletableFuture::completedFuture,
        error -> error.getCode() == Status.Code.NOT_FOUND ? send(calls, content, digest) : CompletableFuture.failedFuture(error));
  }

  private static CompletableFuture<Upload> send(Calls calls, byte[] content, String digest) {
    if (content.length <= PART_BYTES) {
      PutModuleRequest request = PutModuleRequest.newBuilder().setData(UnsafeByteOperations.unsafeWrap(content)).setSha256(digest).build();
      return calls.askAsync(HloServiceGrpc.getPutModuleMethod(), request, (PutModuleResponse answer) -> new Upload(answer.getModule(), true));
    }
    AtomicReference<@Nullable UploadModuleResponse> answer = new AtomicReference<>();
    Iterator<UploadModuleRequest> requests = new Parts<>(content.length, 1, PART_BYTES) {
      @Override
      UploadModuleRequest part(int start, int end) {
        UploadModuleRequest.Builder part = UploadModuleRequest.newBuilder().setData(ByteString.copyFrom(content, start, end - start));
        if (start == 0) {
          part.setSha256(digest).setSizeBytes(content.length);
        }
        return part.build();
      }
    };
    return Calls.then(calls.exchange(HloServiceGrpc.getUploadModuleMethod(), requests, answer::set), done -> {
      UploadModuleResponse last = answer.get();
      if (last == null) {
        throw Requests.fewer(0, 1);
      }
      return new Upload(last.getModule(), true);
    });
  }

  static String sha256(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  private static void addAll(long[] numbers, int start, int end, LongConsumer add) {
    for (int i = start; i < end; i++) {
      add.accept(numbers[i]);
    }
  }

  /** The requests of a stream: at least one, each with whole rows of `width` items and about `most` items. */
  private abstract static class Parts<Q> implements Iterator<Q> {
    private final int count;
    private final int size;
    private int start;
    private boolean isStarted;

    Parts(int count, int width, int most) {
      int row = Math.max(width, 1);
      this.count = count;
      size = Math.max(most / row, 1) * row;
    }

    abstract Q part(int start, int end);

    @Override
    public boolean hasNext() {
      return !isStarted || start < count;
    }

    @Override
    public Q next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      int end = (int) Math.min((long) start + size, count);
      Q next = part(start, end);
      start = end;
      isStarted = true;
      return next;
    }
  }

  private interface LongAt {
    long at(int position);
  }

  private interface BooleanAt {
    boolean at(int position);
  }

  /** An array that grows. */
  private static final class Longs {
    private long[] items;
    private int count;

    Longs(int expected) {
      items = new long[expected];
    }

    void append(int more, LongAt read) {
      if (items.length - count < more) {
        items = Arrays.copyOf(items, Math.max(Math.addExact(count, more), (int) Math.min(2L * items.length, Integer.MAX_VALUE - 8)));
      }
      for (int i = 0; i < more; i++) {
        items[count + i] = read.at(i);
      }
      count += more;
    }

    long[] toArray() {
      return count == items.length ? items : Arrays.copyOf(items, count);
    }
  }

  /** An array that grows. */
  private static final class Booleans {
    private boolean[] items;
    private int count;

    Booleans(int expected) {
      items = new boolean[expected];
    }

    void append(int more, BooleanAt read) {
      if (items.length - count < more) {
        items = Arrays.copyOf(items, Math.max(Math.addExact(count, more), (int) Math.min(2L * items.length, Integer.MAX_VALUE - 8)));
      }
      for (int i = 0; i < more; i++) {
        items[count + i] = read.at(i);
      }
      count += more;
    }

    boolean[] toArray() {
      return count == items.length ? items : Arrays.copyOf(items, count);
    }
  }
}
