package io.github.xlashape;

import io.github.xlashape.v1.GetModuleResponse;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.IndexingServiceGrpc;
import io.github.xlashape.v1.InstructionMapsRequest;
import io.github.xlashape.v1.InstructionMapsResponse;
import io.github.xlashape.v1.LinearOrder;
import io.github.xlashape.v1.MapInput;
import io.github.xlashape.v1.MapOutput;
import io.github.xlashape.v1.Module;
import io.github.xlashape.v1.OperandTilesRequest;
import io.github.xlashape.v1.OperandTilesResponse;
import io.github.xlashape.v1.ShapeDescription;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.ShapeServiceGrpc;
import io.github.xlashape.v1.ShapeSize;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * The calls of {@link XlashapeClient} that have one answer, without waiting for it. A future that fails has an {@link XlashapeException}. Cancelling a
 * future cancels its call.
 */
public final class AsyncXlashapeClient {
  private final Calls calls;

  AsyncXlashapeClient(Calls calls) {
    this.calls = calls;
  }

  /**
   * Describes a shape: its canonical text, sizes, layout, and why its buffer is larger than its elements.
   *
   * @param shape the shape
   * @return the description
   */
  public CompletableFuture<ShapeDescription> describeShape(ShapeInput shape) {
    return calls.askAsync(ShapeServiceGrpc.getDescribeShapeMethod(), Requests.describe(List.of(shape)),
        answer -> Calls.only(answer.getDescriptionsList()));
  }

  /**
   * Describes each shape, in one call.
   *
   * @param shapes the shapes
   * @return a description for each shape, in order
   */
  public CompletableFuture<List<ShapeDescription>> describeShapes(List<ShapeInput> shapes) {
    return calls.askAsync(ShapeServiceGrpc.getDescribeShapeMethod(), Requests.describe(shapes),
        answer -> Calls.same(answer.getDescriptionsList(), shapes.size()));
  }

  /**
   * Measures a shape in elements and bytes.
   *
   * @param shape the shape
   * @return the sizes
   */
  public CompletableFuture<ShapeSize> byteSize(ShapeInput shape) {
    return calls.askAsync(ShapeServiceGrpc.getByteSizeMethod(), Requests.byteSize(List.of(shape)),
        answer -> Calls.only(answer.getSizesList()));
  }

  /**
   * Measures each shape, in one call.
   *
   * @param shapes the shapes
   * @return the sizes of each shape, in order
   */
  public CompletableFuture<List<ShapeSize>> byteSizes(List<ShapeInput> shapes) {
    return calls.askAsync(ShapeServiceGrpc.getByteSizeMethod(), Requests.byteSize(shapes),
        answer -> Calls.same(answer.getSizesList(), shapes.size()));
  }

  /**
   * Finds the position in the buffer of the element at an index.
   *
   * @param shape an array
   * @param index one number for every dimension; none for a scalar
   * @return the position in elements
   */
  public CompletableFuture<Long> linearIndex(ShapeInput shape, long... index) {
    return calls.askAsync(ShapeServiceGrpc.getLinearIndexMethod(), Requests.linearIndex(shape, index), Requests::position);
  }

  /**
   * Finds the positions of the elements at any number of indices. Many indices are sent as a stream. It is not for scalars, whose indices have no
   * numbers.
   *
   * @param shape an array
   * @param order how positions are counted
   * @param indices the indices one after another, each with one number for every dimension
   * @return a position for each index, in elements
   */
  public CompletableFuture<long[]> linearIndices(ShapeInput shape, LinearOrder order, long[] indices) {
    return Bulk.linearIndices(calls, shape, order, indices);
  }

  /**
   * Finds the index of the element at a position of the buffer.
   *
   * @param shape an array
   * @param position a position in elements
   * @return one number for every dimension; null if the position is padding
   */
  public CompletableFuture<long @Nullable []> multiIndex(ShapeInput shape, long position) {
    return calls.askAsync(ShapeServiceGrpc.getMultiIndexMethod(), Requests.multiIndex(shape, position), Requests::index);
  }

  /**
   * Finds the indices of the elements at any number of positions. Many positions are sent as a stream.
   *
   * @param shape an array
   * @param order how positions are counted
   * @param positions positions in elements
   * @return the indices, and which positions are padding
   */
  public CompletableFuture<ElementIndices> multiIndices(ShapeInput shape, LinearOrder order, long[] positions) {
    return Bulk.multiIndices(calls, shape, order, positions);
  }

  /**
   * Stores a module. A module that the server has already is not sent again.
   *
   * @param content HLO text, or a serialized xla.HloModuleProto or xla.HloProto; it must not change meanwhile
   * @return the module, and whether it was sent
   */
  public CompletableFuture<Upload> uploadModule(byte[] content) {
    return Bulk.upload(calls, content);
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

  /**
   * Describes a stored module. The code of the error is {@code NOT_FOUND} if the server does not have it, or no longer.
   *
   * @param name {@code modules/{sha256}}, the name of an uploaded module
   * @return the module
   */
  public CompletableFuture<Module> getModule(String name) {
    return calls.askAsync(HloServiceGrpc.getGetModuleMethod(), Requests.module(name), GetModuleResponse::getModule);
  }

  /**
   * Removes a stored module.
   *
   * @param name {@code modules/{sha256}}, the name of an uploaded module
   * @return null when it is removed
   */
  public CompletableFuture<@Nullable Void> deleteModule(String name) {
    return calls.askAsync(HloServiceGrpc.getDeleteModuleMethod(), Requests.deleteModule(name), answer -> null);
  }

  /**
   * Computes the maps of one instruction.
   *
   * @param request of which instruction
   * @return its maps
   */
  public CompletableFuture<InstructionMapsResponse> instructionMaps(InstructionMapsRequest request) {
    return calls.askAsync(IndexingServiceGrpc.getInstructionMapsMethod(), request, answer -> answer);
  }

  /**
   * Computes the tile of each operand that a tile of an instruction's output reads.
   *
   * @param request which tile of which instruction
   * @return the tiles
   */
  public CompletableFuture<OperandTilesResponse> operandTiles(OperandTilesRequest request) {
    return calls.askAsync(IndexingServiceGrpc.getOperandTilesMethod(), request, answer -> answer);
  }

  /**
   * Simplifies a map.
   *
   * @param map a map
   * @return a map with the same domain and the same results
   */
  public CompletableFuture<MapOutput> simplifyMap(MapInput map) {
    return calls.askAsync(IndexingServiceGrpc.getSimplifyMapMethod(), Requests.simplify(map), Requests::simplified);
  }

  /**
   * Composes maps.
   *
   * @param chain two or more maps, the first of which is applied first
   * @return one map from the source of the first to the target of the last
   */
  public CompletableFuture<MapOutput> composeMaps(MapInput... chain) {
    return calls.askAsync(IndexingServiceGrpc.getComposeMapsMethod(), Requests.compose(chain), Requests::composed);
  }

  /**
   * Lets the server evaluate a map at any number of points. Many points are sent as a stream. It is not for maps without variables, whose points have
   * no numbers. {@link EvaluableMap} does the same without the server.
   *
   * @param map a map
   * @param points the points one after another, each with one number for every variable
   * @return the results, and which points are in the domain
   */
  public CompletableFuture<MapValues> evaluateMap(MapInput map, long[] points) {
    return Bulk.evaluateMap(calls, map, points);
  }
}
