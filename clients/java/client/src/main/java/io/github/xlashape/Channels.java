package io.github.xlashape;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.ManagedChannelRegistry;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.MetadataUtils;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Makes gRPC's channels of options. */
final class Channels {
  private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private Channels() {}

  static ManagedChannel open(ConnectionOptions options) {
    try {
      String target = options.addresses.size() == 1 ? options.addresses.get(0) : AddressList.target(options.addresses);
      ManagedChannelBuilder<?> builder = Grpc.newChannelBuilder(target, options.credentials)
          .defaultServiceConfig(ClientMethods.serviceConfig(options.settings.attempts()))
          .userAgent("xlashape-java/" + XlashapeClient.VERSION)
          .maxInboundMessageSize(options.settings.maxAnswerBytes());
      if (options.settings.attempts() == 1) {
        builder.disableRetry();
      }
      if (options.token != null) {
        builder.intercept(authorizing(options.token));
      }
      if (!options.settings.keepalive().isZero()) {
        builder.keepAliveTime(options.settings.keepalive().toMillis(), TimeUnit.MILLISECONDS);
      }
      options.channelOptions.accept(builder);
      return builder.build();
    } catch (IllegalArgumentException | ManagedChannelRegistry.ProviderNotFoundException e) {
      // An address that is not valid, or a certificate or key that cannot be read.
      throw new XlashapeException(Status.Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", String.valueOf(e.getMessage()), Map.of(), e);
    }
  }

  /** Sends the token of each call. */
  private static ClientInterceptor authorizing(Supplier<String> token) {
    return new ClientInterceptor() {
      @Override
      public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        String given = token.get();
        Metadata headers = new Metadata();
        if (!given.isEmpty()) {
          headers.put(AUTHORIZATION, "Bearer " + given);
        }
        return MetadataUtils.newAttachHeadersInterceptor(headers).interceptCall(method, options, next);
      }
    };
  }
}
