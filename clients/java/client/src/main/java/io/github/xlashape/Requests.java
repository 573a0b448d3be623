package io.github.xlashape;

import io.github.xlashape.v1.ByteSizeRequest;
import io.github.xlashape.v1.ComposeMapsRequest;
import io.github.xlashape.v1.ComposeMapsResponse;
import io.github.xlashape.v1.DeleteModuleRequest;
import io.github.xlashape.v1.DescribeShapeRequest;
import io.github.xlashape.v1.GetModuleRequest;
import io.github.xlashape.v1.LinearIndexRequest;
import io.github.xlashape.v1.LinearIndexResponse;
import io.github.xlashape.v1.MapChain;
import io.github.xlashape.v1.MapInput;
import io.github.xlashape.v1.MapOutput;
import io.github.xlashape.v1.MultiIndexRequest;
import io.github.xlashape.v1.MultiIndexResponse;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.SimplifyMapRequest;
import io.github.xlashape.v1.SimplifyMapResponse;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Requests, and what is taken out of their answers: the same for clients that wait and for those that do not. */
final class Requests {
  private Requests() {}

  static DescribeShapeRequest describe(List<ShapeInput> shapes) {
    return DescribeShapeRequest.newBuilder().addAllShapes(shapes).build();
  }

  static ByteSizeRequest byteSize(List<ShapeInput> shapes) {
    return ByteSizeRequest.newBuilder().addAllShapes(shapes).build();
  }

  static LinearIndexRequest linearIndex(ShapeInput shape, long... index) {
    LinearIndexRequest.Builder request = LinearIndexRequest.newBuilder().setShape(shape).setCount(1);
    for (long number : index) {
      request.addIndices(number);
    }
    return request.build();
  }

  static long position(LinearIndexResponse answer) {
    return Calls.only(answer.getPositionsList());
  }

  static MultiIndexRequest multiIndex(ShapeInput shape, long position) {
    return MultiIndexRequest.newBuilder().setShape(shape).addPositions(position).build();
  }

  static long @Nullable [] index(MultiIndexResponse answer) {
    boolean isElement = Calls.only(answer.getIsElementList());
    return isElement ? answer.getIndicesList().stream().mapToLong(Long::longValue).toArray() : null;
  }

  static GetModuleRequest module(String name) {
    return GetModuleRequest.newBuilder().setName(name).build();
  }

  static DeleteModuleRequest deleteModule(String name) {
    return DeleteModuleRequest.newBuilder().setName(name).build();
  }

  static SimplifyMapRequest simplify(MapInput map) {
    return SimplifyMapRequest.newBuilder().addMaps(map).build();
  }

  static MapOutput simplified(SimplifyMapResponse answer) {
    return Calls.only(answer.getMapsList()).getMap();
  }

  static ComposeMapsRequest compose(MapInput... chain) {
    return ComposeMapsRequest.newBuilder().addChains(MapChain.newBuilder().addAllMaps(Arrays.asList(chain))).build();
  }

  static MapOutput composed(ComposeMapsResponse answer) {
    return Calls.only(answer.getMapsList());
  }
}
