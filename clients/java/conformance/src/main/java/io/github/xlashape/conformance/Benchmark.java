package io.github.xlashape.conformance;

import io.github.xlashape.EvaluableMap;
import io.github.xlashape.Inputs;
import io.github.xlashape.XlashapeClient;
import io.github.xlashape.v1.ByteSizeRequest;
import io.github.xlashape.v1.LinearOrder;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.ShapeServiceGrpc;
import java.util.Arrays;

/** What tests/benchmarks/bench_clients.py asks of each language: times in microseconds as JSON. */
public final class Benchmark {
  private static final int POINTS = 1_000_000;
  private static final String TEXT = "(d0, d1) -> ((d0 * 128 + d1) floordiv 8, (d0 * 128 + d1) mod 8), domain: d0 in [0, 7999], d1 in [0, 127]";

  private Benchmark() {}

  public static void main(String[] arguments) {
    try (XlashapeClient client = XlashapeClient.connect(arguments[0])) {
      ShapeInput shape = Inputs.shape("bf16[20,300]{1,0:T(8,128)(2,1)}");
      ShapeServiceGrpc.ShapeServiceBlockingStub stub = ShapeServiceGrpc.newBlockingStub(client.channel());
      // In turns, so that both see the same machine. The first calls are compiled while they run, and are not counted.
      double[] ours = new double[5000];
      double[] bare = new double[5000];
      for (int i = 0; i < ours.length; i++) {
        ours[i] = micros(() -> client.byteSize(shape));
        bare[i] = micros(() -> stub.byteSize(ByteSizeRequest.newBuilder().addShapes(shape).build()));
      }
      long[] numbers = new long[2 * POINTS];
      for (int i = 0; i < POINTS; i++) {
        numbers[2 * i] = i / 128;
        numbers[2 * i + 1] = i % 128;
      }
      ShapeInput array = Inputs.shape("f32[8000,128]{1,0:T(8,128)}");
      EvaluableMap map = EvaluableMap.of(client.parseMap(Inputs.mapText(TEXT)).getMap());
      System.out.printf(
          "{\"small_call\": %.1f, \"bare_stub\": %.1f, \"million_indices\": %.0f, \"evaluate_here\": %.0f, \"evaluate_there\": %.0f}%n",
          median(ours),
          median(bare),
          best(() -> client.linearIndices(array, LinearOrder.LINEAR_ORDER_PHYSICAL, numbers)),
          best(() -> map.evaluateBatch(numbers, POINTS)),
          best(() -> client.evaluateMap(Inputs.mapText(TEXT), numbers)));
    }
  }

  private static double micros(Runnable action) {
    long began = System.nanoTime();
    action.run();
    return (System.nanoTime() - began) / 1e3;
  }

  private static double median(double[] times) {
    double[] counted = Arrays.copyOfRange(times, times.length - 2000, times.length);
    Arrays.sort(counted);
    return counted[counted.length / 2];
  }

  /** The best of 5, after 15 that warm up. */
  private static double best(Runnable action) {
    double best = Double.POSITIVE_INFINITY;
    for (int i = 0; i < 20; i++) {
      double time = micros(action);
      best = i < 15 ? best : Math.min(best, time);
    }
    return best;
  }
}
