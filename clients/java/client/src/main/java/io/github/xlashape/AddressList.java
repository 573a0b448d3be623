package io.github.xlashape;

import io.grpc.Attributes;
import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.Status;
import io.grpc.StatusOr;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.stream.Stream;

/** Several addresses as one target of gRPC: {@code xlashape:///HOST:PORT,HOST:PORT}. */
final class AddressList extends NameResolverProvider {
  private static final String SCHEME = "xlashape";

  static {
    NameResolverRegistry.getDefaultRegistry().register(new AddressList());
  }

  static String target(List<String> addresses) {
    addresses.forEach(AddressList::server);
    return SCHEME + ":///" + String.join(",", addresses).replace("[", "%5B").replace("]", "%5D");
  }

  private static URI server(String address) {
    URI server = URI.create("//" + address);
    if (server.getHost() == null || server.getPort() < 0) {
      throw new IllegalArgumentException("expected HOST:PORT of one of several servers, found " + address);
    }
    return server;
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    List<URI> servers = Stream.of(target.getPath().substring(1).split(",")).map(AddressList::server).toList();
    Executor executor = Objects.requireNonNullElse(args.getOffloadExecutor(), Runnable::run);
    return new NameResolver() {
      private Listener2 listener;

      @Override
      public String getServiceAuthority() {
        return servers.get(0).getAuthority();
      }

      @Override
      public void start(Listener2 listener) {
        this.listener = listener;
        refresh();
      }

      @Override
      public void refresh() {
        executor.execute(() -> listener.onResult(ResolutionResult.newBuilder().setAddressesOrError(resolved(servers)).build()));
      }

      @Override
      public void shutdown() {}
    };
  }

  /** The addresses of all servers whose names are known. TLS checks the certificate of each against its own name. */
  private static StatusOr<List<EquivalentAddressGroup>> resolved(List<URI> servers) {
    List<EquivalentAddressGroup> groups = new ArrayList<>();
    Status unknown = Status.UNAVAILABLE;
    for (URI server : servers) {
      Attributes attributes = Attributes.newBuilder().set(EquivalentAddressGroup.ATTR_AUTHORITY_OVERRIDE, server.getAuthority()).build();
      try {
        for (InetAddress address : InetAddress.getAllByName(server.getHost())) {
          groups.add(new EquivalentAddressGroup(new InetSocketAddress(address, server.getPort()), attributes));
        }
      } catch (UnknownHostException e) {
        unknown = Status.UNAVAILABLE.withDescription("unknown host " + server.getHost()).withCause(e);
      }
    }
    return groups.isEmpty() ? StatusOr.fromStatus(unknown) : StatusOr.fromValue(groups);
  }

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  protected int priority() {
    return 0; // of targets without a scheme gRPC asks the resolver of the highest priority: DNS, of 5
  }

  @Override
  public String getDefaultScheme() {
    return SCHEME;
  }
}
