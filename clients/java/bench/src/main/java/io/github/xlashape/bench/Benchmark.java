package io.github.xlashape.bench;

import io.github.xlashape.EvaluableMap;
import io.github.xlashape.Inputs;
import io.github.xlashape.XlashapeClient;
import io.github.xlashape.v1.ByteSizeRequest;
import io.github.xlashape.v1.LinearOrder;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.ShapeServiceGrpc;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Measures a small call beside a bare stub, a million indices, and a map at a million points beside the server. */
public final class Benchmark {
  private static final int MILLION = 1_000_000;

  private Benchmark() {}

  public static void main(String[] arguments) {
    if (arguments.length != 1) {
      System.err.println("usage: Benchmark HOST:PORT");
      System.exit(2);
    }
    try (XlashapeClient client = XlashapeClient.connect(arguments[0])) {
      ShapeInput shape = Inputs.shape("f32[4096,4096]{1,0:T(8,128)}");
      ShapeServiceGrpc.ShapeServiceBlockingStub stub = ShapeServiceGrpc.newBlockingStub(client.channel());
      ByteSizeRequest request = ByteSizeRequest.newBuilder().addShapes(shape).build();
      // In turns, so that both see the same machine.
      long[] ours = new long[6000];
      long[] bare = new long[6000];
      for (int i = 0; i < ours.length; i++) {
        ours[i] = nanoseconds(() -> client.byteSize(shape));
        bare[i] = nanoseconds(() -> stub.withDeadlineAfter(1, TimeUnit.MINUTES).byteSize(request));
      }
      double call = median(ours, 2000) / 1e3;
      double bareCall = median(bare, 2000) / 1e3;
      System.out.printf("ByteSize of one shape: %.0f us, bare stub %.0f us, ratio %.2f%n", call, bareCall, call / bareCall);

      long[] indices = new long[2 * MILLION];
      long[] points = new long[2 * MILLION];
      for (int i = 0; i < MILLION; i++) {
        indices[2 * i] = i * 7919L % 4096;
        indices[2 * i + 1] = i * 104729L % 4096;
        points[2 * i] = i / 128 % 8000;
        points[2 * i + 1] = i % 128;
      }
      System.out.printf("1,000,000 indices: %.0f ms%n", times(() -> client.linearIndices(shape, LinearOrder.LINEAR_ORDER_PHYSICAL, indices)) / 1e6);
      String text = "(d0, d1) -> ((d0 * 128 + d1) floordiv 8, (d0 * 128 + d1) mod 8), domain: d0 in [0, 7999], d1 in [0, 127]";
      EvaluableMap map = EvaluableMap.parse(text);
      double here = times(() -> map.evaluateBatch(points, MILLION)) / 1e6;
      double there = times(() -> client.evaluateMap(Inputs.mapText(text), points)) / 1e6;
      System.out.printf("a map at 1,000,000 points: here %.1f ms, by the server %.0f ms%n", here, there);
      EvaluableMap odd = EvaluableMap.parse(text.replace("8,", "7,").replace("mod 8", "mod 7"));
      System.out.printf("with a divisor of 7: here %.1f ms%n", times(() -> odd.evaluateBatch(points, MILLION)) / 1e6);
    }
  }

  private static long nanoseconds(Supplier<?> action) {
    long began = System.nanoTime();
    action.get();
    return System.nanoTime() - began;
  }

  private static double median(long[] times, int warmUp) {
    long[] sorted = Arrays.copyOfRange(times, warmUp, times.length);
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }

  private static double times(Supplier<?> action) {
    long[] times = new long[25];
    for (int i = 0; i < times.length; i++) {
      times[i] = nanoseconds(action);
    }
    return median(times, 10);
  }
}
