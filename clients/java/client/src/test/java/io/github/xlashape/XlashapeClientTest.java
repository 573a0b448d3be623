package io.github.xlashape;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.github.xlashape.v1.ByteSizeRequest;
import io.github.xlashape.v1.ByteSizeResponse;
import io.github.xlashape.v1.DescribeShapeRequest;
import io.github.xlashape.v1.DescribeShapeResponse;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.Instruction;
import io.github.xlashape.v1.LinearIndicesRequest;
import io.github.xlashape.v1.LinearIndicesResponse;
import io.github.xlashape.v1.LinearOrder;
import io.github.xlashape.v1.ListInstructionsRequest;
import io.github.xlashape.v1.ListInstructionsResponse;
import io.github.xlashape.v1.ShapeDescription;
import io.github.xlashape.v1.ShapeServiceGrpc;
import io.github.xlashape.v1.ShapeSize;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class XlashapeClientTest {
  private static final Context.Key<String> AUTHORIZATION = Context.key("authorization");

  private interface Answer {
    ByteSizeResponse get() throws Exception;
  }

  private final List<AutoCloseable> open = new ArrayList<>();

  @AfterEach
  void close() throws Exception {
    for (AutoCloseable one : open) {
      one.close();
    }
  }

  /** A server that answers ByteSize as it is told; its address. */
  private String serve(Answer answer) throws IOException {
    ServerInterceptor authorization = new ServerInterceptor() {
      @Override
      public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
        String sent = headers.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
        return Contexts.interceptCall(Context.current().withValue(AUTHORIZATION, sent), call, headers, next);
      }
    };
    return serve(authorization, new ShapeServiceGrpc.ShapeServiceImplBase() {
      @Override
      public void byteSize(ByteSizeRequest request, StreamObserver<ByteSizeResponse> observer) {
        try {
          observer.onNext(answer.get());
          observer.onCompleted();
        } catch (Exception e) {
          observer.onError(e);
        }
      }
    });
  }

  private String serve(ServerInterceptor interceptor, io.grpc.BindableService service) throws IOException {
    Server server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(service).intercept(interceptor).build().start();
    open.add(server::shutdownNow);
    return "127.0.0.1:" + server.getPort();
  }

  private static final ServerInterceptor NOTHING = new ServerInterceptor() {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      return next.startCall(call, headers);
    }
  };

  private XlashapeClient connect(ConnectionOptions options) {
    XlashapeClient client = XlashapeClient.connect(options);
    open.add(0, client);
    return client;
  }

  private XlashapeClient connect(String address) {
    return connect(ConnectionOptions.builder(address).build());
  }

  private static ByteSizeResponse bytes(long bytes) {
    return ByteSizeResponse.newBuilder().addSizes(ShapeSize.newBuilder().setPhysicalBytes(bytes)).build();
  }

  private static XlashapeException refused(XlashapeClient client) {
    return assertThrows(XlashapeException.class, () -> client.byteSize(Inputs.shape("f32[?]")));
  }

  private static Exception refusal(String domain) {
    ErrorInfo info = ErrorInfo.newBuilder().setReason("PARSE").setDomain(domain).putAllMetadata(Map.of(
        "message", "expected a size", "field", "shapes[0].text", "line", "1", "column", "5", "source_line", "f32[?]")).build();
    return StatusProto.toStatusException(com.google.rpc.Status.newBuilder()
        .setCode(Status.Code.INVALID_ARGUMENT.value()).setMessage("shapes[0].text: …").addDetails(Any.pack(info)).build());
  }

  @Test
  void errorsHaveTheServersDetails() throws Exception {
    XlashapeClient client = connect(serve(() -> {
      throw refusal("xlashape");
    }));
    XlashapeException error = refused(client);
    assertEquals(Status.Code.INVALID_ARGUMENT, error.getCode());
    assertEquals("PARSE", error.getReason());
    assertEquals("expected a size", error.getDescription());
    assertEquals("shapes[0].text", error.getField());
    assertEquals(List.of(1, 5), List.of(error.getLine(), error.getColumn()));
    assertEquals(Map.of("source_line", "f32[?]"), error.getDetails());
    assertEquals("shapes[0].text: line 1, column 5: expected a size (PARSE)", error.getMessage());
    ExecutionException later = assertThrows(ExecutionException.class, () -> client.async().byteSize(Inputs.shape("f32[?]")).get());
    assertEquals(error.getMessage(), assertInstanceOf(XlashapeException.class, later.getCause()).getMessage());
    Exception raw = assertThrows(
        Exception.class, () -> ShapeServiceGrpc.newBlockingStub(client.channel()).byteSize(ByteSizeRequest.getDefaultInstance()));
    assertEquals(error.getMessage(), XlashapeException.of(raw).getMessage());
  }

  @Test
  void detailsOfOthersAreNotRead() throws Exception {
    XlashapeException error = refused(connect(serve(() -> {
      throw refusal("example.com");
    })));
    assertEquals("shapes[0].text: … (INVALID_ARGUMENT)", error.getMessage());
    assertEquals("", error.getReason());
    Metadata trailers = new Metadata();
    trailers.put(Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER), new byte[] {1, 2, 3});
    assertEquals("x (NOT_FOUND)", XlashapeException.of(Status.NOT_FOUND.withDescription("x").asException(trailers)).getMessage());
  }

  @Test
  void aRefusedConnectionSaysSo() {
    XlashapeException error = refused(connect("127.0.0.1:1"));
    assertEquals(Status.Code.UNAVAILABLE, error.getCode());
    assertTrue(error.getMessage().contains("Connection refused"), error.getMessage());
    assertThrows(XlashapeException.class, () -> connect("127.0.0.1:1").waitUntilReady(Duration.ofMillis(200)));
  }

  @Test
  void theTokenOfEachCallIsAskedFor() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    String address = serve(() -> bytes(1));
    XlashapeClient client = XlashapeClient.connect(ConnectionOptions.builder(address).tokenSource(() -> "token" + asked.incrementAndGet()).build());
    open.add(client::close);
    client.waitUntilReady(Duration.ofSeconds(20));
    client.byteSize(Inputs.shape("f32[]"));
    assertEquals(2, asked.get());
  }

  @Test
  void callsEndInTime() throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    open.add(end::countDown);
    XlashapeClient client = connect(serve(() -> {
      end.await();
      return bytes(1);
    }));
    assertEquals(Status.Code.DEADLINE_EXCEEDED, refused(client.withTimeout(Duration.ofMillis(50))).getCode());
    CompletableFuture<ShapeSize> future = client.async().byteSize(Inputs.shape("f32[]"));
    assertTrue(future.cancel(true));
    Thread caller = Thread.currentThread();
    CompletableFuture.delayedExecutor(50, TimeUnit.MILLISECONDS).execute(caller::interrupt);
    assertEquals(Status.Code.CANCELLED, refused(client).getCode());
    assertTrue(Thread.interrupted());
  }

  @Test
  void aClientThatAnotherOneGaveDoesNotCloseIt() throws Exception {
    XlashapeClient client = connect(serve(() -> bytes(1)));
    try (XlashapeClient patient = client.withTimeout(Duration.ofMinutes(5))) {
      patient.byteSize(Inputs.shape("f32[]"));
    }
    try (XlashapeClient late = client.withCallOptions(options -> options.withDeadlineAfter(-1, TimeUnit.SECONDS))) {
      assertEquals(Status.Code.DEADLINE_EXCEEDED, refused(late).getCode());
    }
    client.byteSize(Inputs.shape("f32[]"));
    client.close();
    assertEquals(Status.Code.UNAVAILABLE, refused(client).getCode());
  }

  @Test
  void cancellingAFutureCancelsItsCall() throws Exception {
    CountDownLatch cancelled = new CountDownLatch(1);
    CountDownLatch begun = new CountDownLatch(1);
    XlashapeClient client = connect(serve(NOTHING, new ShapeServiceGrpc.ShapeServiceImplBase() {
      @Override
      public void byteSize(ByteSizeRequest request, StreamObserver<ByteSizeResponse> observer) {
        ((ServerCallStreamObserver<ByteSizeResponse>) observer).setOnCancelHandler(cancelled::countDown);
        begun.countDown();
      }
    }));
    CompletableFuture<ShapeSize> future = client.async().byteSize(Inputs.shape("f32[]"));
    begun.await();
    future.cancel(true);
    assertTrue(cancelled.await(20, TimeUnit.SECONDS));
  }

  @Test
  void questionsInBulkAreOneFuture() throws Exception {
    CountDownLatch cancelled = new CountDownLatch(1);
    CountDownLatch begun = new CountDownLatch(2);
    XlashapeClient client = connect(serve(NOTHING, new ShapeServiceGrpc.ShapeServiceImplBase() {
      @Override
      public void describeShape(DescribeShapeRequest request, StreamObserver<DescribeShapeResponse> observer) {
        if (request.getShapes(0).getText().isEmpty()) {
          observer.onError(Status.NOT_FOUND.asException());
          return;
        }
        begun.countDown();
        observer.onNext(DescribeShapeResponse.newBuilder().addDescriptions(ShapeDescription.newBuilder().setRank(2)).build());
        observer.onCompleted();
      }

      @Override
      public StreamObserver<LinearIndicesRequest> linearIndices(StreamObserver<LinearIndicesResponse> observer) {
        ((ServerCallStreamObserver<LinearIndicesResponse>) observer).setOnCancelHandler(cancelled::countDown);
        begun.countDown();
        return new StreamObserver<>() {
          @Override
          public void onNext(LinearIndicesRequest part) {}

          @Override
          public void onError(Throwable error) {}

          @Override
          public void onCompleted() {}
        };
      }
    }));
    long[] many = new long[1 << 19];
    CompletableFuture<long[]> future = client.async().linearIndices(Inputs.shape("f32[9,9]"), LinearOrder.LINEAR_ORDER_PHYSICAL, many);
    begun.await();
    future.cancel(true);
    assertTrue(cancelled.await(20, TimeUnit.SECONDS));
    CompletableFuture<Throwable> error = new CompletableFuture<>();
    client.async().linearIndices(Inputs.shape(""), LinearOrder.LINEAR_ORDER_PHYSICAL, many).whenComplete((found, e) -> error.complete(e));
    assertEquals(Status.Code.NOT_FOUND, assertInstanceOf(XlashapeException.class, error.get()).getCode());
  }

  @Test
  void callsAreRepeatedWhileTheServerIsUnavailable() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    String address = serve(() -> {
      if (calls.incrementAndGet() < 3) {
        throw Status.UNAVAILABLE.asException();
      }
      return bytes(96);
    });
    assertEquals(96, connect(address).byteSize(Inputs.shape("f32[]")).getPhysicalBytes());
    assertEquals(3, calls.get());
    calls.set(0);
    assertEquals(Status.Code.UNAVAILABLE, refused(connect(ConnectionOptions.builder(address).attempts(1).build())).getCode());
    assertEquals(1, calls.get());
  }

  @Test
  void optionsAreChecked() {
    ConnectionOptions.Builder builder = ConnectionOptions.builder("localhost:1");
    List<org.junit.jupiter.api.function.Executable> wrong = List.of(
        () -> builder.attempts(0),
        () -> builder.attempts(6),
        () -> builder.timeout(Duration.ofMillis(-1)),
        () -> builder.maxAnswerBytes(-1),
        () -> builder.token("two\nlines"),
        () -> XlashapeClient.connect(ConnectionOptions.builder("localhost:1").addAddress("no port").build()),
        () -> XlashapeClient.connect(ConnectionOptions.builder("localhost:1").addAddress("unix:/tmp/socket").build()),
        () -> XlashapeClient.connect("nothing-like-that:///localhost"),
        () -> XlashapeClient.connect(ConnectionOptions.builder("localhost:1").rootCertificates("no PEM".getBytes()).build()));
    for (int i = 0; i < wrong.size(); i++) {
      assertEquals("INVALID_ARGUMENT", assertThrows(XlashapeException.class, wrong.get(i), "option " + i).getReason());
    }
  }

  @Test
  void theTokenIsSent() throws Exception {
    List<String> sent = new ArrayList<>();
    String address = serve(() -> {
      sent.add(String.valueOf(AUTHORIZATION.get()));
      return bytes(1);
    });
    connect(ConnectionOptions.builder(address).token("secret").build()).byteSize(Inputs.shape("f32[]"));
    connect(ConnectionOptions.builder(address).token("").build()).byteSize(Inputs.shape("f32[]"));
    assertEquals(List.of("Bearer secret", "null"), sent);
  }

  @Test
  void callsGoToAllAddresses() throws Exception {
    String first = serve(() -> bytes(1));
    String second = serve(() -> bytes(2));
    XlashapeClient client = connect(ConnectionOptions.builder(first).addAddress(second).build());
    Set<Long> seen = new HashSet<>();
    for (int i = 0; i < 1000 && seen.size() < 2; i++) {
      seen.add(client.byteSize(Inputs.shape("f32[]")).getPhysicalBytes());
    }
    assertEquals(Set.of(1L, 2L), seen);
  }

  @Test
  void aServerThatAnswersLess() throws Exception {
    assertEquals("INVALID_ANSWER", refused(connect(serve(ByteSizeResponse::getDefaultInstance))).getReason());
  }

  @Test
  void pagesAreFetchedAsTheyAreNeeded() throws Exception {
    List<String> tokens = new ArrayList<>();
    XlashapeClient client = connect(serve(NOTHING, new HloServiceGrpc.HloServiceImplBase() {
      @Override
      public void listInstructions(ListInstructionsRequest request, StreamObserver<ListInstructionsResponse> observer) {
        tokens.add(request.getPageToken());
        int page = tokens.size();
        if (page == 4) {
          observer.onError(Status.NOT_FOUND.asException());
          return;
        }
        ListInstructionsResponse.Builder answer = ListInstructionsResponse.newBuilder().setNextPageToken("page " + page);
        if (page != 2) { // an empty page is not the end
          answer.addInstructions(Instruction.newBuilder().setName("a" + page)).addInstructions(Instruction.newBuilder().setName("b" + page));
        }
        observer.onNext(answer.build());
        observer.onCompleted();
      }
    }));
    var names = client.listInstructions(ListInstructionsRequest.getDefaultInstance()).map(Instruction::getName).iterator();
    assertEquals("a1", names.next());
    assertEquals(List.of(""), tokens);
    assertEquals("b1", names.next());
    assertEquals("a3", names.next());
    assertEquals(List.of("", "page 1", "page 2"), tokens);
    assertEquals("b3", names.next());
    assertEquals(Status.Code.NOT_FOUND, assertThrows(XlashapeException.class, names::hasNext).getCode());
  }

  @Test
  void theSchemaOfXlaIsNotInThisProcess() {
    for (String name : List.of("xla.XlaData", "xla.ShapeProto")) {
      assertThrows(ClassNotFoundException.class, () -> Class.forName(name));
    }
    assertFalse(ShapeServiceGrpc.getServiceDescriptor().getMethods().isEmpty());
  }
}
