package io.github.xlashape;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannelBuilder;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * How to connect to a server. Options are immutable:
 *
 * <pre>{@code
 * ConnectionOptions options = ConnectionOptions.builder("shapes.example:443")
 *     .tls()
 *     .token(System.getenv("XLASHAPE_TOKEN"))
 *     .timeout(Duration.ofSeconds(10))
 *     .build();
 * }</pre>
 */
public final class ConnectionOptions {
  final List<String> addresses;
  final ChannelCredentials credentials;
  final @Nullable Supplier<String> token;
  final Settings settings;
  final Consumer<? super ManagedChannelBuilder<?>> channelOptions;

  private ConnectionOptions(Builder builder) {
    addresses = List.copyOf(builder.addresses);
    credentials = builder.tls == null ? InsecureChannelCredentials.create() : builder.tls.build();
    token = builder.token;
    settings = builder.settings();
    channelOptions = builder.channelOptions;
  }

  /**
   * Begins options for the server at an address.
   *
   * @param address {@code HOST:PORT}, {@code unix:PATH} on Linux, or any other target of gRPC such as {@code dns:///HOST:PORT}, which spreads calls over
   *     all addresses of the name
   * @return a builder with the defaults
   */
  public static Builder builder(String address) {
    return new Builder(address);
  }

  @Override
  public String toString() {
    return "ConnectionOptions(" + String.join(", ", addresses) + (credentials instanceof TlsChannelCredentials ? ", TLS)" : ")");
  }

  /** Builds {@link ConnectionOptions}. A builder is for one thread; what it has built does not change. */
  public static final class Builder extends Settings.Builder {
    private final List<String> addresses = new ArrayList<>();
    private TlsChannelCredentials.@Nullable Builder tls;
    private @Nullable Supplier<String> token;
    private Consumer<? super ManagedChannelBuilder<?>> channelOptions = builder -> {};

    private Builder(String address) {
      addAddress(address);
    }

    @Override
    Builder self() {
      return this;
    }

    /**
     * Adds a server that has the same modules. Calls go to the servers in turn.
     *
     * @param address {@code HOST:PORT}; with several servers the first address has this form too
     * @return this builder
     */
    public Builder addAddress(String address) {
      addresses.add(Objects.requireNonNull(address, "address"));
      return this;
    }

    /**
     * Encrypts the connection, and trusts the certificates that Java trusts.
     *
     * @return this builder
     */
    public Builder tls() {
      return tls(credentials -> {});
    }

    private interface Change {
      void apply(TlsChannelCredentials.Builder credentials) throws IOException;
    }

    private Builder tls(Change change) {
      tls = tls == null ? TlsChannelCredentials.newBuilder() : tls;
      try {
        change.apply(tls);
      } catch (IOException e) {
        throw new UncheckedIOException(e); // not of bytes in memory
      }
      return this;
    }

    /**
     * Encrypts the connection, and trusts only servers whose certificates these certificates sign.
     *
     * @param pem certificates in PEM
     * @return this builder
     */
    public Builder rootCertificates(byte[] pem) {
      return tls(credentials -> credentials.trustManager(new ByteArrayInputStream(pem)));
    }

    /**
     * Encrypts the connection, and identifies this client.
     *
     * @param certificatePem this client's certificate and those up to the root, in PEM
     * @param keyPem its private key in PEM, PKCS #8 and not encrypted
     * @return this builder
     */
    public Builder clientCertificate(byte[] certificatePem, byte[] keyPem) {
      return tls(credentials -> credentials.keyManager(new ByteArrayInputStream(certificatePem), new ByteArrayInputStream(keyPem)));
    }

    /**
     * Sends a bearer token with each call. Without TLS it travels readably.
     *
     * @param token the token; null or empty for none
     * @return this builder
     * @throws XlashapeException if the token has characters other than those of ASCII that can be printed; the reason is INVALID_ARGUMENT
     */
    public Builder token(@Nullable String token) {
      boolean isPrintable = token == null || token.chars().allMatch(c -> c >= ' ' && c <= '~');
      XlashapeException.check(isPrintable, "INVALID_ARGUMENT", "token", "a token has printable characters of ASCII");
      this.token = token == null || token.isEmpty() ? null : () -> token;
      return this;
    }

    /**
     * Asks for the bearer token of each call, for tokens that change.
     *
     * @param token gives the token; an empty one is not sent. What it throws ends the call
     * @return this builder
     */
    public Builder tokenSource(Supplier<String> token) {
      this.token = Objects.requireNonNull(token, "token");
      return this;
    }

    /**
     * Passes further options to gRPC, after all others.
     *
     * @param options what to do with gRPC's own builder
     * @return this builder
     */
    public Builder channelOptions(Consumer<? super ManagedChannelBuilder<?>> options) {
      channelOptions = Objects.requireNonNull(options, "options");
      return this;
    }

    /**
     * Builds the options.
     *
     * @return immutable options
     */
    public ConnectionOptions build() {
      return new ConnectionOptions(this);
    }
  }
}
