package xlashape

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// A Client asks one server, or several that hold the same modules. It is safe for use by several goroutines at once.
type Client struct {
	// Shapes, Modules, Indexing, Reports and Views are the generated clients, for calls that the methods of Client do not cover.
	Shapes   xlashapev1.ShapeServiceClient
	Modules  xlashapev1.HloServiceClient
	Indexing xlashapev1.IndexingServiceClient
	Reports  xlashapev1.ReportServiceClient
	Views    xlashapev1.ViewServiceClient

	connection *grpc.ClientConn
}

// An Option changes how Connect connects.
type Option func(*options)

// Version is the version of this package, which calls tell the server as xlashape-go/VERSION.
const Version = "0.1.0"

type options struct {
	settings
	tls       *tls.Config
	token     func(context.Context) (string, error)
	addresses []string
	dial      []grpc.DialOption
}

// WithTLS encrypts the connection. The configuration says which certificates are trusted, and with which the client identifies itself; an empty one
// trusts those of the system.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// WithToken sends a bearer token with each call; an empty one stands for none. Without TLS it travels readably.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks for the bearer token of each call, for tokens that change. An error of it ends the call as UNAUTHENTICATED.
func WithTokenSource(token func(context.Context) (string, error)) Option {
	return func(o *options) { o.token = token }
}

// WithAddresses spreads calls over further servers, one after the other.
func WithAddresses(addresses ...string) Option {
	return func(o *options) { o.addresses = append(o.addresses, addresses...) }
}

// WithDialOptions passes further options to gRPC, such as interceptors, which see *Error values.
func WithDialOptions(dial ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, dial...) }
}

// Connect makes a client of the server at an address: HOST:PORT, unix:PATH, or any other target of gRPC such as dns:///HOST:PORT, which spreads calls
// over all addresses of the name. The connection is made by the first call, and again whenever it breaks.
func Connect(address string, given ...Option) (*Client, error) {
	o := options{settings: defaultSettings()}
	for _, option := range given {
		option(&o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	transport := insecure.NewCredentials()
	if o.tls != nil {
		transport = credentials.NewTLS(o.tls)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(fmt.Sprintf(serviceConfig, max(o.attempts, 2))),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.maxAnswer)),
		grpc.WithChainUnaryInterceptor(o.unary),
		grpc.WithChainStreamInterceptor(o.stream),
		grpc.WithUserAgent("xlashape-go/" + Version),
	}
	if o.token != nil {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer{o.token, o.tls != nil}))
	}
	if o.attempts == 1 {
		dial = append(dial, grpc.WithDisableRetry())
	}
	if o.keepalive > 0 {
		dial = append(dial, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: o.keepalive}))
	}
	target := address
	if len(o.addresses) > 0 {
		servers := manual.NewBuilderWithScheme("xlashape")
		var state resolver.State
		for _, one := range append([]string{address}, o.addresses...) {
			// TLS checks the certificate of each server against the server's own name.
			state.Addresses = append(state.Addresses, resolver.Address{Addr: one, ServerName: one})
		}
		servers.InitialState(state)
		target = servers.Scheme() + ":///" + address
		dial = append(dial, grpc.WithResolvers(servers))
	}
	connection, err := grpc.NewClient(target, append(dial, o.dial...)...)
	if err != nil {
		return nil, &Error{Code: codes.InvalidArgument, Reason: "INVALID_ARGUMENT", Field: "address", Message: err.Error(), cause: err}
	}
	return &Client{
		Shapes:     xlashapev1.NewShapeServiceClient(connection),
		Modules:    xlashapev1.NewHloServiceClient(connection),
		Indexing:   xlashapev1.NewIndexingServiceClient(connection),
		Reports:    xlashapev1.NewReportServiceClient(connection),
		Views:      xlashapev1.NewViewServiceClient(connection),
		connection: connection,
	}, nil
}

// Connection returns the connection, for other services of the server such as grpc.health.v1.Health. Its calls return an *Error too.
func (c *Client) Connection() *grpc.ClientConn { return c.connection }

// WaitUntilReady returns once the server answers calls, or with an error when the context ends. A refusal, such as of a token, ends the wait at once.
func (c *Client) WaitUntilReady(ctx context.Context) error {
	for {
		_, err := c.Shapes.ByteSize(ctx, &xlashapev1.ByteSizeRequest{})
		if status.Code(err) != codes.Unavailable {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Close ends the connection and all calls.
func (c *Client) Close() error { return c.connection.Close() }

type bearer struct {
	token  func(context.Context) (string, error)
	secure bool
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil || token == "" {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }

// deadline gives a call a time if its context has no deadline.
func deadline(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

func (o *options) unary(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, cancel := deadline(ctx, o.timeout)
	defer cancel()
	return errorOf(invoke(ctx, method, request, answer, connection, options...))
}

func (o *options) stream(ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
	start grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := deadline(ctx, o.streamTimeout)
	stream, err := start(ctx, description, connection, method, append(options, grpc.OnFinish(func(error) { cancel() }))...)
	if err != nil {
		cancel()
		return nil, errorOf(err)
	}
	return messages{stream}, nil
}

// messages is a stream whose errors, except io.EOF at its end, are *Error values.
type messages struct{ grpc.ClientStream }

func (m messages) SendMsg(message any) error { return errorOf(m.ClientStream.SendMsg(message)) }

func (m messages) RecvMsg(message any) error { return errorOf(m.ClientStream.RecvMsg(message)) }
