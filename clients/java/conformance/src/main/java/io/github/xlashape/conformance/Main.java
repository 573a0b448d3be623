package io.github.xlashape.conformance;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import com.google.protobuf.MessageLite;
import io.github.xlashape.ConnectionOptions;
import io.github.xlashape.ElementIndices;
import io.github.xlashape.EvaluableMap;
import io.github.xlashape.Inputs;
import io.github.xlashape.MapValues;
import io.github.xlashape.Upload;
import io.github.xlashape.XlashapeClient;
import io.github.xlashape.XlashapeException;
import io.github.xlashape.v1.ByteSizeRequest;
import io.github.xlashape.v1.ByteSizeResponse;
import io.github.xlashape.v1.ComposeMapsRequest;
import io.github.xlashape.v1.ComposeMapsResponse;
import io.github.xlashape.v1.DeleteModuleRequest;
import io.github.xlashape.v1.DeleteModuleResponse;
import io.github.xlashape.v1.DescribeShapeRequest;
import io.github.xlashape.v1.DescribeShapeResponse;
import io.github.xlashape.v1.EvaluateMapBatchRequest;
import io.github.xlashape.v1.EvaluateMapResponse;
import io.github.xlashape.v1.GetModuleRequest;
import io.github.xlashape.v1.GetModuleResponse;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.IndexingServiceGrpc;
import io.github.xlashape.v1.LinearIndexRequest;
import io.github.xlashape.v1.LinearIndexResponse;
import io.github.xlashape.v1.LinearIndicesRequest;
import io.github.xlashape.v1.ListInstructionsRequest;
import io.github.xlashape.v1.MapInput;
import io.github.xlashape.v1.MultiIndexRequest;
import io.github.xlashape.v1.MultiIndexResponse;
import io.github.xlashape.v1.MultiIndicesRequest;
import io.github.xlashape.v1.ParseMapRequest;
import io.github.xlashape.v1.ParseMapResponse;
import io.github.xlashape.v1.PutModuleRequest;
import io.github.xlashape.v1.PutModuleResponse;
import io.github.xlashape.v1.ReportServiceGrpc;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.ShapeServiceGrpc;
import io.github.xlashape.v1.SimplifiedMap;
import io.github.xlashape.v1.SimplifyMapRequest;
import io.github.xlashape.v1.SimplifyMapResponse;
import io.github.xlashape.v1.SizeRequest;
import io.github.xlashape.v1.ViewServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServiceDescriptor;
import io.grpc.Status;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.IntToLongFunction;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** The testee of the Java client: does what tests/conformance/run.py asks, and tells how it ended. */
public final class Main {
  private final Map<String, MethodDescriptor<?, ?>> methods = new HashMap<>();
  private XlashapeClient client;
  private volatile String token;

  private Main() {
    for (ServiceDescriptor service : new ServiceDescriptor[] {
        ShapeServiceGrpc.getServiceDescriptor(), HloServiceGrpc.getServiceDescriptor(), IndexingServiceGrpc.getServiceDescriptor(),
        ReportServiceGrpc.getServiceDescriptor(), ViewServiceGrpc.getServiceDescriptor()}) {
      for (MethodDescriptor<?, ?> method : service.getMethods()) {
        methods.put(method.getFullMethodName(), method);
      }
    }
  }

  public static void main(String[] arguments) throws IOException {
    InputStream input = new BufferedInputStream(System.in, 1 << 16);
    OutputStream output = new BufferedOutputStream(System.out, 1 << 16);
    Main testee = new Main();
    while (true) {
      Request request = Request.parseDelimitedFrom(input);
      if (request == null) {
        break;
      }
      Response.Builder response = Response.newBuilder();
      try {
        testee.answer(request, response);
      } catch (XlashapeException refused) {
        response.setError(io.github.xlashape.conformance.Error.newBuilder()
            .setCode(refused.getCode().value())
            .setReason(refused.getReason())
            .setMessage(refused.getDescription())
            .setField(refused.getField())
            .setLine(refused.getLine())
            .setColumn(refused.getColumn())
            .putAllDetails(refused.getDetails()));
      } catch (Exception | OutOfMemoryError e) {
        e.printStackTrace();
        response.setFailure(e.toString());
      }
      response.build().writeDelimitedTo(output);
      output.flush();
    }
    if (testee.client != null) {
      testee.client.close();
    }
  }

  private void answer(Request request, Response.Builder response) throws Exception {
    switch (request.getActionCase()) {
      case START -> start(request.getStart());
      case CALL -> call(request.getCall(), response);
      case EVALUATION -> evaluate(request.getEvaluation(), response);
      case UPLOAD -> upload(request.getUpload(), response);
      case PAGES -> pages(request.getPages(), response);
      case BULK -> bulk(request.getBulk(), response);
      default -> throw new IllegalArgumentException("unknown action " + request.getActionCase());
    }
  }

  private void upload(io.github.xlashape.conformance.Upload given, Response.Builder response) throws IOException {
    Upload upload;
    if (given.getReadBytes() == 0) {
      upload = client.uploadModule(given.getContent().toByteArray());
    } else {
      IOException failure = new IOException("the reader failed");
      InputStream content = given.getContent().newInput();
      InputStream from = new InputStream() {
        @Override
        public int read() {
          throw new UnsupportedOperationException();
        }

        @Override
        public int read(byte[] to, int at, int size) throws IOException {
          int count = content.read(to, at, Math.min(size, given.getReadBytes()));
          if (count < 0 && given.getReaderFails()) {
            throw failure;
          }
          return count;
        }
      };
      try {
        upload = client.uploadModule(from, response::addProgress);
      } catch (IOException e) {
        response.setReaderFailed(e == failure);
        return;
      }
    }
    response.setSent(upload.sent()).addAnswers(upload.module().toByteString());
  }

  private void start(Start start) {
    if (start.getTransport() != Transport.TRANSPORT_GRPC) {
      throw new IllegalArgumentException("unknown transport " + start.getTransport());
    }
    // What gRPC receives by default has to do.
    ConnectionOptions.Builder options = ConnectionOptions.builder(start.getAddress()).maxAnswerBytes(4 << 20);
    token = start.getToken();
    if (!token.isEmpty()) {
      options.tokenSource(() -> token);
    }
    if (!start.getRootCertificates().isEmpty()) {
      options.rootCertificates(start.getRootCertificates().toByteArray());
    }
    if (!start.getClientCertificate().isEmpty()) {
      options.clientCertificate(start.getClientCertificate().toByteArray(), start.getClientKey().toByteArray());
    }
    start.getMoreAddressesList().forEach(options::addAddress);
    if (client != null) {
      client.close();
    }
    client = XlashapeClient.connect(options.build());
  }

  private void call(Call call, Response.Builder response) throws Exception {
    MethodDescriptor<?, ?> method = methods.get("xlashape.v1." + call.getRpc());
    if (method == null) {
      throw new IllegalArgumentException("unknown RPC " + call.getRpc());
    }
    if (!call.getToken().isEmpty()) {
      token = call.getToken();
    }
    XlashapeClient asked = call.getTimeoutMs() > 0 ? client.withTimeout(Duration.ofMillis(call.getTimeoutMs())) : client;
    MessageLite answer = null;
    if (method.getType() == MethodDescriptor.MethodType.UNARY && call.getCancelAfterMs() == 0) {
      answer = asked(asked, method, (Message) method.parseRequest(call.getRequests(0).newInput()));
    }
    if (answer == null) {
      response.setBelow(true);
      call(method, call, response);
    } else {
      response.addAnswers(answer.toByteString());
    }
  }

  /** The answer by the client's methods of the RPC's name; null if none of them sends this request. */
  private static MessageLite asked(XlashapeClient client, MethodDescriptor<?, ?> rpc, Message request) throws Exception {
    Method named = named(rpc);
    if (named != null) {
      try {
        return (MessageLite) named.invoke(client, request);
      } catch (InvocationTargetException e) {
        throw (Exception) e.getCause();
      }
    }
    boolean isOfOneField = request.getAllFields().size() == 1;
    if (request instanceof DescribeShapeRequest asked) {
      List<ShapeInput> shapes = asked.getShapesList();
      return DescribeShapeResponse.newBuilder()
          .addAllDescriptions(shapes.size() == 1 ? List.of(client.describeShape(shapes.get(0))) : client.describeShapes(shapes)).build();
    } else if (request instanceof ByteSizeRequest asked && asked.getPointerSize() == 0) {
      List<ShapeInput> shapes = asked.getShapesList();
      return ByteSizeResponse.newBuilder()
          .addAllSizes(shapes.size() == 1 ? List.of(client.byteSize(shapes.get(0))) : client.byteSizes(shapes)).build();
    } else if (request instanceof LinearIndexRequest asked && asked.getCount() == 1) {
      return LinearIndexResponse.newBuilder()
          .addPositions(client.linearIndex(asked.getShape(), longs(asked.getIndicesCount(), asked::getIndices))).build();
    } else if (request instanceof MultiIndexRequest asked && asked.getPositionsCount() == 1) {
      long[] index = client.multiIndex(asked.getShape(), asked.getPositions(0));
      MultiIndexResponse.Builder answer = MultiIndexResponse.newBuilder().addIsElement(index != null);
      LongStream.of(index == null ? new long[0] : index).forEach(answer::addIndices);
      return answer.build();
    } else if (request instanceof PutModuleRequest asked && asked.getSha256().isEmpty()) {
      Upload upload = client.uploadModule(asked.getData().toByteArray());
      return PutModuleResponse.newBuilder().setModule(upload.module()).setAlreadyPresent(!upload.sent()).build();
    } else if (request instanceof GetModuleRequest asked && asked.getContentOffset() == 0 && asked.getContentLimit() == 0) {
      ByteString.Output content = ByteString.newOutput();
      if (asked.getIncludeContent()) {
        client.downloadModule(asked.getName(), content);
      }
      return GetModuleResponse.newBuilder().setModule(client.getModule(asked.getName())).setContent(content.toByteString()).build();
    } else if (request instanceof DeleteModuleRequest asked) {
      client.deleteModule(asked.getName());
      return DeleteModuleResponse.getDefaultInstance();
    } else if (request instanceof ParseMapRequest asked && isOfOneField && asked.getMapsCount() == 1) {
      return ParseMapResponse.newBuilder().addMaps(client.parseMap(asked.getMaps(0))).build();
    } else if (request instanceof SimplifyMapRequest asked && isOfOneField && asked.getMapsCount() == 1) {
      return SimplifyMapResponse.newBuilder().addMaps(SimplifiedMap.newBuilder().setMap(client.simplifyMap(asked.getMaps(0)))).build();
    } else if (request instanceof ComposeMapsRequest asked && isOfOneField && asked.getChainsCount() == 1) {
      return ComposeMapsResponse.newBuilder().addMaps(client.composeMaps(asked.getChains(0).getMapsList().toArray(new MapInput[0]))).build();
    }
    return null;
  }

  /** The client's method of the name of an RPC that takes the request and returns the answer; null if there is none. */
  private static Method named(MethodDescriptor<?, ?> rpc) {
    String name = rpc.getBareMethodName();
    Class<?> request = ((MethodDescriptor.PrototypeMarshaller<?>) rpc.getRequestMarshaller()).getMessageClass();
    Class<?> answer = ((MethodDescriptor.PrototypeMarshaller<?>) rpc.getResponseMarshaller()).getMessageClass();
    try {
      Method method = XlashapeClient.class.getMethod(Character.toLowerCase(name.charAt(0)) + name.substring(1), request);
      return method.getReturnType() == answer ? method : null;
    } catch (NoSuchMethodException e) {
      return null;
    }
  }

  /** Calls any RPC with messages of the types that the schema declares. */
  private <Q, A> void call(MethodDescriptor<Q, A> method, Call call, Response.Builder response) throws Exception {
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(call.getTimeoutMs() > 0 ? call.getTimeoutMs() : 60_000, TimeUnit.MILLISECONDS);
    ClientCall<Q, A> running = client.channel().newCall(method, options);
    CompletableFuture<Void> end = new CompletableFuture<>();
    running.start(new ClientCall.Listener<A>() {
      @Override
      public void onMessage(A answer) {
        response.addAnswers(((MessageLite) answer).toByteString());
        if (call.getStopAfter() > 0 && response.getAnswersCount() == call.getStopAfter()) {
          running.cancel("enough", null);
        } else {
          running.request(1);
        }
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        if (status.isOk() || call.getStopAfter() > 0 && response.getAnswersCount() == call.getStopAfter()) {
          end.complete(null);
        } else {
          end.completeExceptionally(status.asRuntimeException(trailers));
        }
      }
    }, new Metadata());
    running.request(method.getType().serverSendsOneMessage() ? 2 : 1);
    for (ByteString request : call.getRequestsList()) {
      running.sendMessage(method.parseRequest(request.newInput()));
    }
    if (!call.getKeepOpen()) {
      running.halfClose();
    }
    if (call.getCancelAfterMs() > 0) {
      CompletableFuture.delayedExecutor(call.getCancelAfterMs(), TimeUnit.MILLISECONDS).execute(() -> running.cancel("cancelled", null));
    }
    try {
      end.get();
    } catch (java.util.concurrent.ExecutionException e) {
      throw XlashapeException.of(e.getCause());
    }
  }

  private void evaluate(Evaluation evaluation, Response.Builder response) throws IOException {
    IndexingMap message = evaluation.hasText()
        ? client.parseMap(Inputs.mapText(evaluation.getText())).getMap() : IndexingMap.parseFrom(evaluation.getMessage());
    long[] points = longs(evaluation.getPointsCount(), evaluation::getPoints);
    if (!message.getFitsInt64()) {
      response.addAnswers(message(client.evaluateMap(Inputs.mapMessage(message), points)).toByteString());
      return;
    }
    EvaluableMap map = EvaluableMap.of(message);
    int count = evaluation.getCount();
    if (evaluation.getBatch()) {
      response.addAnswers(message(map.evaluateBatch(points, count)).toByteString());
      return;
    }
    EvaluateMapResponse.Builder answer = EvaluateMapResponse.newBuilder();
    for (int i = 0; i < count; i++) {
      int width = points.length / count;
      long[] results = map.evaluate(Arrays.copyOfRange(points, i * width, (i + 1) * width));
      answer.addInDomain(results != null);
      for (int j = 0; j < map.results(); j++) {
        answer.addResults(results == null ? 0 : results[j]);
      }
    }
    response.addAnswers(answer.build().toByteString());
  }

  private void pages(Pages pages, Response.Builder response) throws IOException {
    Stream<? extends MessageLite> items = pages.getRpc().equals("HloService/ListInstructions")
        ? client.listInstructions(ListInstructionsRequest.parseFrom(pages.getRequest()))
        : client.sizeRows(SizeRequest.parseFrom(pages.getRequest()));
    items.forEach(item -> response.addAnswers(item.toByteString()));
  }

  private void bulk(Bulk bulk, Response.Builder response) throws IOException {
    long[] numbers = longs(bulk.getNumbersCount(), bulk::getNumbers);
    switch (bulk.getRpc()) {
      case "ShapeService/LinearIndices" -> {
        LinearIndicesRequest first = LinearIndicesRequest.parseFrom(bulk.getRequest());
        LinearIndexResponse.Builder answer = LinearIndexResponse.newBuilder();
        for (long position : client.linearIndices(first.getShape(), first.getOrder(), numbers)) {
          answer.addPositions(position);
        }
        response.addAnswers(answer.build().toByteString());
      }
      case "ShapeService/MultiIndices" -> {
        MultiIndicesRequest first = MultiIndicesRequest.parseFrom(bulk.getRequest());
        ElementIndices found = client.multiIndices(first.getShape(), first.getOrder(), numbers);
        MultiIndexResponse.Builder answer = MultiIndexResponse.newBuilder();
        for (long index : found.indices()) {
          answer.addIndices(index);
        }
        for (boolean isElement : found.isElement()) {
          answer.addIsElement(isElement);
        }
        response.addAnswers(answer.build().toByteString());
      }
      default -> {
        EvaluateMapBatchRequest first = EvaluateMapBatchRequest.parseFrom(bulk.getRequest());
        response.addAnswers(message(client.evaluateMap(first.getMap(), numbers)).toByteString());
      }
    }
  }

  private static EvaluateMapResponse message(MapValues values) {
    EvaluateMapResponse.Builder answer = EvaluateMapResponse.newBuilder();
    for (long result : values.results()) {
      answer.addResults(result);
    }
    for (boolean inDomain : values.inDomain()) {
      answer.addInDomain(inDomain);
    }
    return answer.build();
  }

  private static long[] longs(int count, IntToLongFunction at) {
    return IntStream.range(0, count).mapToLong(at).toArray();
  }
}
