package xlashape

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// A Client asks one server, or several that hold the same modules. It is safe for use by several goroutines at once.
type Client struct {
	// Shapes, Modules, Indexing and Reports are the generated clients, for calls that the methods of Client do not cover.
	Shapes   xlashapev1.ShapeServiceClient
	Modules  xlashapev1.HloServiceClient
	Indexing xlashapev1.IndexingServiceClient
	Reports  xlashapev1.ReportServiceClient

	connection *grpc.ClientConn
}

// An Option changes how Connect connects.
type Option func(*settings)

type settings struct {
	tls       *tls.Config
	token     string
	timeout   time.Duration
	attempts  int
	addresses []string
	receive   int
	dial      []grpc.DialOption
}

// WithTLS encrypts the connection. The configuration says which certificates are trusted, and with which the client identifies itself; an empty one
// trusts those of the system.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// WithToken sends a bearer token with each call. Without TLS it travels readably.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithTimeout bounds each call whose context has no deadline of its own. The default is one minute; 0 stands for no bound.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithAttempts sets how often a call is sent in all while the server is unavailable, from 1 to 5. The default is 4, with growing, random pauses from
// 100 ms. A call is not sent again after its answer has begun.
func WithAttempts(attempts int) Option { return func(s *settings) { s.attempts = attempts } }

// WithAddresses spreads calls over further servers, one after the other.
func WithAddresses(addresses ...string) Option {
	return func(s *settings) { s.addresses = append(s.addresses, addresses...) }
}

// WithMaxAnswer sets the bytes that one message from the server may have. The default is 64 MiB.
func WithMaxAnswer(bytes int) Option { return func(s *settings) { s.receive = bytes } }

// WithDialOptions passes further options to gRPC.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// Connect makes a client of the server at an address: HOST:PORT, unix:PATH, or any other target of gRPC such as dns:///HOST:PORT, which spreads calls
// over all addresses of the name. The connection is made by the first call, and again whenever it breaks.
func Connect(address string, options ...Option) (*Client, error) {
	s := settings{timeout: time.Minute, attempts: 4, receive: 64 << 20}
	for _, option := range options {
		option(&s)
	}
	if s.attempts < 1 || s.attempts > 5 {
		return nil, mistake("INVALID_ARGUMENT", "attempts", "a call has 1 to 5 attempts, not %d", s.attempts)
	}
	transport := insecure.NewCredentials()
	if s.tls != nil {
		transport = credentials.NewTLS(s.tls)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(serviceConfig(s.attempts)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(s.receive)),
		grpc.WithUnaryInterceptor(s.unary),
		grpc.WithStreamInterceptor(s.stream),
	}
	if s.token != "" {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer{s.token, s.tls != nil}))
	}
	target := address
	if len(s.addresses) > 0 {
		servers := manual.NewBuilderWithScheme("xlashape")
		var state resolver.State
		for _, one := range append([]string{address}, s.addresses...) {
			state.Addresses = append(state.Addresses, resolver.Address{Addr: one})
		}
		servers.InitialState(state)
		host, _, _ := strings.Cut(address, ":")
		target = servers.Scheme() + ":///" + host
		dial = append(dial, grpc.WithResolvers(servers))
	}
	connection, err := grpc.NewClient(target, append(dial, s.dial...)...)
	if err != nil {
		return nil, &Error{Code: codes.InvalidArgument, Reason: "INVALID_ARGUMENT", Field: "address", Message: err.Error(), cause: err}
	}
	return &Client{
		Shapes:     xlashapev1.NewShapeServiceClient(connection),
		Modules:    xlashapev1.NewHloServiceClient(connection),
		Indexing:   xlashapev1.NewIndexingServiceClient(connection),
		Reports:    xlashapev1.NewReportServiceClient(connection),
		connection: connection,
	}, nil
}

// Connection returns the connection, for other services of the server such as grpc.health.v1.Health. Its calls return an *Error too.
func (c *Client) Connection() *grpc.ClientConn { return c.connection }

// Close ends the connection and all calls.
func (c *Client) Close() error { return c.connection.Close() }

// serviceConfig lets gRPC repeat calls and spread them over all addresses.
func serviceConfig(attempts int) string {
	retries := ""
	if attempts > 1 {
		retries = fmt.Sprintf(`, "retryPolicy": {"maxAttempts": %d, "initialBackoff": "0.1s", "maxBackoff": "2s",
			"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}`, attempts)
	}
	return `{"loadBalancingConfig": [{"round_robin": {}}], "methodConfig": [{"name": [{}]` + retries + `}]}`
}

type bearer struct {
	token  string
	secure bool
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }

// deadline gives a call the client's time if its context has no deadline.
func (s *settings) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || s.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

func (s *settings) unary(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return errorOf(invoke(ctx, method, request, answer, connection, options...))
}

func (s *settings) stream(ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
	start grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := s.deadline(ctx)
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
