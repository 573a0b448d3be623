package io.github.xlashape;

import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.ManagedChannelRegistry;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.MetadataUtils;
import java.util.List;
import java.util.Map;

/** Makes gRPC's channels of options. */
final class Channels {
  private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private Channels() {}

  static ManagedChannel open(ConnectionOptions options) {
    try {
      String target = options.addresses.size() == 1 ? options.addresses.get(0) : AddressList.target(options.addresses);
      ManagedChannelBuilder<?> builder = Grpc.newChannelBuilder(target, options.credentials)
          .defaultServiceConfig(serviceConfig(options.attempts))
          .enableRetry()
          .maxInboundMessageSize(options.maxAnswerBytes);
      if (options.token != null) {
        Metadata headers = new Metadata();
        headers.put(AUTHORIZATION, "Bearer " + options.token);
        builder.intercept(MetadataUtils.newAttachHeadersInterceptor(headers));
      }
      options.channelOptions.accept(builder);
      return builder.build();
    } catch (IllegalArgumentException | ManagedChannelRegistry.ProviderNotFoundException e) {
      // An address that is not valid, or a certificate or key that cannot be read.
      throw new XlashapeException(Status.Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", String.valueOf(e.getMessage()), Map.of(), e);
    }
  }

  /** Lets gRPC repeat calls, and spread them over all addresses. gRPC takes numbers as doubles. */
  private static Map<String, ?> serviceConfig(int attempts) {
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
}
