package io.github.xlashape;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.ManagedChannelRegistry;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.List;
import java.util.Map;

/** Makes gRPC's channels of options. */
final class Channels {
  private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private Channels() {}

  static ManagedChannel open(ConnectionOptions options) {
    ManagedChannelBuilder<?> builder;
    try {
      String target = options.addresses.size() == 1 ? options.addresses.get(0) : AddressList.target(options.addresses);
      builder = Grpc.newChannelBuilder(target, credentials(options));
      builder.defaultServiceConfig(serviceConfig(options.attempts));
      builder.enableRetry();
      builder.maxInboundMessageSize(options.maxAnswerBytes);
      if (options.token != null) {
        builder.intercept(new Bearer("Bearer " + options.token));
      }
      options.channelOptions.accept(builder);
      return builder.build();
    } catch (IllegalArgumentException | IOException | ManagedChannelRegistry.ProviderNotFoundException e) {
      // An address that is not valid, or a certificate or key that cannot be read.
      throw new XlashapeException(Status.Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", String.valueOf(e.getMessage()), Map.of(), e);
    }
  }

  private static ChannelCredentials credentials(ConnectionOptions options) throws IOException {
    if (!options.usesTls) {
      return InsecureChannelCredentials.create();
    }
    TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
    if (options.rootCertificates != null) {
      builder.trustManager(new ByteArrayInputStream(options.rootCertificates));
    }
    if (options.certificate != null) {
      builder.keyManager(new ByteArrayInputStream(options.certificate), new ByteArrayInputStream(options.key));
    }
    return builder.build();
  }

  /** Lets gRPC repeat calls, and spread them over all addresses. gRPC takes numbers as doubles. */
  static Map<String, ?> serviceConfig(int attempts) {
    List<Map<String, ?>> balancing = List.of(Map.of("round_robin", Map.of()));
    if (attempts == 1) {
      return Map.of("loadBalancingConfig", balancing);
    }
    Map<String, ?> policy = Map.of(
        "maxAttempts", (double) attempts,
        "initialBackoff", "0.1s",
        "maxBackoff", "2s",
        "backoffMultiplier", 2.0,
        "retryableStatusCodes", List.of("UNAVAILABLE"));
    return Map.of("loadBalancingConfig", balancing, "methodConfig", List.of(Map.of("name", List.of(Map.of()), "retryPolicy", policy)));
  }

  private record Bearer(String value) implements ClientInterceptor {
    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
        @Override
        public void start(Listener<A> listener, Metadata headers) {
          headers.put(AUTHORIZATION, value);
          super.start(listener, headers);
        }
      };
    }
  }
}
