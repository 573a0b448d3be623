package io.github.xlashape;

import io.github.xlashape.v1.ByteSizesRequest;
import io.github.xlashape.v1.ByteSizesResponse;
import io.github.xlashape.v1.GetModuleRequest;
import io.github.xlashape.v1.GetModuleResponse;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.IndexingMapsRequest;
import io.github.xlashape.v1.IndexingMapsResponse;
import io.github.xlashape.v1.IndexingServiceGrpc;
import io.github.xlashape.v1.Instruction;
import io.github.xlashape.v1.InstructionMapsRequest;
import io.github.xlashape.v1.InstructionMapsResponse;
import io.github.xlashape.v1.InstructionSize;
import io.github.xlashape.v1.LinearOrder;
import io.github.xlashape.v1.ListInstructionsRequest;
import io.github.xlashape.v1.ListInstructionsResponse;
import io.github.xlashape.v1.MapInput;
import io.github.xlashape.v1.MapOutput;
import io.github.xlashape.v1.Module;
import io.github.xlashape.v1.OperandReadsRequest;
import io.github.xlashape.v1.OperandReadsResponse;
import io.github.xlashape.v1.OperandTilesRequest;
import io.github.xlashape.v1.OperandTilesResponse;
import io.github.xlashape.v1.ShapeDescription;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.ShapeServiceGrpc;
import io.github.xlashape.v1.ShapeSize;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Asks one server, or several that have the same modules. Methods wait for the answer; {@link #async} gives those that do not. Clients are safe for use by
 * several threads at once.
 *
 * <p>The connection is made by the first call, and again whenever it breaks.
 */
public final class XlashapeClient implements AutoCloseable {
  private final ManagedChannel channel;
  private final Calls calls;

  private XlashapeClient(ManagedChannel channel, Duration timeout) {
    this.channel = channel;
    calls = new Calls(channel, timeout);
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
    return new XlashapeClient(Channels.open(options), options.timeout);
  }

  /**
   * Gives calls another time.
   *
   * @param timeout the time that each call may take; zero for no bound
   * @return a client with the same connection, which closing either of them ends
   * @throws XlashapeException if the time is negative; the reason is INVALID_ARGUMENT
   */
  public XlashapeClient withTimeout(Duration timeout) {
    return new XlashapeClient(channel, ConnectionOptions.Builder.checked(timeout));
  }

  /**
   * Gives calls that do not wait.
   *
   * @return calls over the same connection
   */
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
    return channel;
  }

  /** Ends the connection and all calls. */
  @Override
  public void close() {
    channel.shutdownNow();
  }

  /**
   * Describes a shape: its canonical text, sizes, layout, and why its buffer is larger than its elements.
   *
   * @param shape the shape
   * @return the description
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public ShapeDescription describeShape(ShapeInput shape) {
    return describeShapes(List.of(shape)).get(0);
  }

  /**
   * Describes each shape, in one call.
   *
   * @param shapes the shapes
   * @return a description for each shape, in order
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public List<ShapeDescription> describeShapes(List<ShapeInput> shapes) {
    return Calls.same(calls.ask(ShapeServiceGrpc.getDescribeShapeMethod(), Requests.describe(shapes)).getDescriptionsList(), shapes.size());
  }

  /**
   * Measures a shape in elements and bytes.
   *
   * @param shape the shape
   * @return the sizes
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public ShapeSize byteSize(ShapeInput shape) {
    return byteSizes(List.of(shape)).get(0);
  }

  /**
   * Measures each shape, in one call.
   *
   * @param shapes the shapes
   * @return the sizes of each shape, in order
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public List<ShapeSize> byteSizes(List<ShapeInput> shapes) {
    return Calls.same(calls.ask(ShapeServiceGrpc.getByteSizeMethod(), Requests.byteSize(shapes)).getSizesList(), shapes.size());
  }

  /**
   * Finds the position in the buffer of the element at an index.
   *
   * @param shape an array
   * @param index one number for every dimension; none for a scalar
   * @return the position in elements
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public long linearIndex(ShapeInput shape, long... index) {
    return Requests.position(calls.ask(ShapeServiceGrpc.getLinearIndexMethod(), Requests.linearIndex(shape, index)));
  }

  /**
   * Finds the positions of the elements at any number of indices. Many indices are sent as a stream. It is not for scalars, whose indices have no
   * numbers.
   *
   * @param shape an array
   * @param order how positions are counted
   * @param indices the indices one after another, each with one number for every dimension
   * @return a position for each index, in elements
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public long[] linearIndices(ShapeInput shape, LinearOrder order, long[] indices) {
    return Calls.await(Bulk.linearIndices(calls, shape, order, indices));
  }

  /**
   * Finds the index of the element at a position of the buffer.
   *
   * @param shape an array
   * @param position a position in elements
   * @return one number for every dimension; null if the position is padding
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public long @Nullable [] multiIndex(ShapeInput shape, long position) {
    return Requests.index(calls.ask(ShapeServiceGrpc.getMultiIndexMethod(), Requests.multiIndex(shape, position)));
  }

  /**
   * Finds the indices of the elements at any number of positions. Many positions are sent as a stream.
   *
   * @param shape an array
   * @param order how positions are counted
   * @param positions positions in elements
   * @return the indices, and which positions are padding
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public ElementIndices multiIndices(ShapeInput shape, LinearOrder order, long[] positions) {
    return Calls.await(Bulk.multiIndices(calls, shape, order, positions));
  }

  /**
   * Stores a module. A module that the server has already is not sent again.
   *
   * @param content HLO text, or a serialized xla.HloModuleProto or xla.HloProto; it must not change meanwhile
   * @return the module, and whether it was sent
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public Upload uploadModule(byte[] content) {
    return Calls.await(Bulk.upload(calls, content));
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
   * Describes a stored module. The code of the error is {@code NOT_FOUND} if the server does not have it, or no longer.
   *
   * @param name {@code modules/{sha256}}, the name of an uploaded module
   * @return the module
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public Module getModule(String name) {
    return calls.ask(HloServiceGrpc.getGetModuleMethod(), Requests.module(name)).getModule();
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
    GetModuleRequest.Builder request = GetModuleRequest.newBuilder().setName(name).setIncludeContent(true).setContentLimit(Bulk.PART_BYTES);
    long written = 0;
    while (true) {
      GetModuleResponse answer = calls.ask(HloServiceGrpc.getGetModuleMethod(), request.setContentOffset(written).build());
      answer.getContent().writeTo(to);
      written += answer.getContent().size();
      if (answer.getContent().isEmpty() || written >= answer.getModule().getSizeBytes()) {
        return written;
      }
    }
  }

  /**
   * Removes a stored module.
   *
   * @param name {@code modules/{sha256}}, the name of an uploaded module
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public void deleteModule(String name) {
    calls.ask(HloServiceGrpc.getDeleteModuleMethod(), Requests.deleteModule(name));
  }

  /**
   * Lists the instructions of a module, in the module's order. Pages are fetched as they are needed.
   *
   * @param request of which module, and which of its instructions
   * @return the instructions; reading them throws {@link XlashapeException} if the server refuses, or cannot be reached
   */
  public Stream<Instruction> listInstructions(ListInstructionsRequest request) {
    return calls.pages(
        request.getPageToken(),
        token -> calls.ask(HloServiceGrpc.getListInstructionsMethod(), request.toBuilder().setPageToken(token).build()),
        ListInstructionsResponse::getInstructionsList,
        ListInstructionsResponse::getNextPageToken);
  }

  /**
   * Measures the results of a module's instructions. Pages are fetched as they are needed.
   *
   * @param request of which module, and which of its instructions in which order
   * @return the sizes; reading them throws {@link XlashapeException} if the server refuses, or cannot be reached
   */
  public Stream<InstructionSize> instructionSizes(ByteSizesRequest request) {
    return calls.pages(
        request.getPageToken(),
        token -> calls.ask(HloServiceGrpc.getByteSizesMethod(), request.toBuilder().setPageToken(token).build()),
        ByteSizesResponse::getInstructionsList,
        ByteSizesResponse::getNextPageToken);
  }

  /**
   * Computes the maps of a module's instructions, or of one. They are read while the server computes.
   *
   * @param request of which instructions
   * @return an answer for each instruction; reading them throws {@link XlashapeException} if the server refuses, or cannot be reached. Closing the stream
   *     ends the call: use it in a {@code try} statement if not all of it is read
   */
  public Stream<IndexingMapsResponse> indexingMaps(IndexingMapsRequest request) {
    return calls.answers(IndexingServiceGrpc.getIndexingMapsMethod(), request);
  }

  /**
   * Computes the maps of one instruction.
   *
   * @param request of which instruction
   * @return its maps
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public InstructionMapsResponse instructionMaps(InstructionMapsRequest request) {
    return calls.ask(IndexingServiceGrpc.getInstructionMapsMethod(), request);
  }

  /**
   * Computes how efficiently a module's instructions, or one, read their operands. Answers are read while the server computes.
   *
   * @param request of which instructions
   * @return an answer for each instruction; reading them throws {@link XlashapeException} if the server refuses, or cannot be reached. Closing the stream
   *     ends the call: use it in a {@code try} statement if not all of it is read
   */
  public Stream<OperandReadsResponse> operandReads(OperandReadsRequest request) {
    return calls.answers(IndexingServiceGrpc.getOperandReadsMethod(), request);
  }

  /**
   * Computes the tile of each operand that a tile of an instruction's output reads.
   *
   * @param request which tile of which instruction
   * @return the tiles
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public OperandTilesResponse operandTiles(OperandTilesRequest request) {
    return calls.ask(IndexingServiceGrpc.getOperandTilesMethod(), request);
  }

  /**
   * Simplifies a map.
   *
   * @param map a map
   * @return a map with the same domain and the same results
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public MapOutput simplifyMap(MapInput map) {
    return Requests.simplified(calls.ask(IndexingServiceGrpc.getSimplifyMapMethod(), Requests.simplify(map)));
  }

  /**
   * Composes maps.
   *
   * @param chain two or more maps, the first of which is applied first
   * @return one map from the source of the first to the target of the last
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public MapOutput composeMaps(MapInput... chain) {
    return Requests.composed(calls.ask(IndexingServiceGrpc.getComposeMapsMethod(), Requests.compose(chain)));
  }

  /**
   * Lets the server evaluate a map at any number of points. Many points are sent as a stream. It is not for maps without variables, whose points have
   * no numbers. {@link EvaluableMap} does the same without the server.
   *
   * @param map a map
   * @param points the points one after another, each with one number for every variable
   * @return the results, and which points are in the domain
   * @throws XlashapeException if the server refuses, or cannot be reached
   */
  public MapValues evaluateMap(MapInput map, long[] points) {
    return Calls.await(Bulk.evaluateMap(calls, map, points));
  }
}
