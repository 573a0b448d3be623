package xlashape

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// fakeShapes answers ByteSize as it is told.
type fakeShapes struct {
	xlashapev1.UnimplementedShapeServiceServer
	byteSize func(context.Context) (*xlashapev1.ByteSizeResponse, error)
}

func (f *fakeShapes) ByteSize(ctx context.Context, _ *xlashapev1.ByteSizeRequest) (*xlashapev1.ByteSizeResponse, error) {
	return f.byteSize(ctx)
}

func serve(t *testing.T, network, address string, byteSize func(context.Context) (*xlashapev1.ByteSizeResponse, error)) string {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	xlashapev1.RegisterShapeServiceServer(server, &fakeShapes{byteSize: byteSize})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func connect(t *testing.T, address string, options ...Option) *Client {
	t.Helper()
	client, err := Connect(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func answer(bytes int64) (*xlashapev1.ByteSizeResponse, error) {
	return &xlashapev1.ByteSizeResponse{Sizes: []*xlashapev1.ShapeSize{{PhysicalBytes: bytes}}}, nil
}

func TestErrorsHaveTheServersDetails(t *testing.T) {
	refused, err := status.New(codes.InvalidArgument, "shapes[0].text: …").WithDetails(&errdetails.ErrorInfo{
		Reason: "PARSE", Domain: "xlashape",
		Metadata: map[string]string{"message": "expected a size", "field": "shapes[0].text", "line": "1", "column": "5", "source_line": "f32[?]"},
	})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, "tcp", "127.0.0.1:0", func(context.Context) (*xlashapev1.ByteSizeResponse, error) { return nil, refused.Err() })
	_, err = connect(t, address).ByteSize(context.Background(), Shape("f32[?]"))
	var found *Error
	if !errors.As(err, &found) {
		t.Fatal(err)
	}
	if found.Code != codes.InvalidArgument || found.Reason != "PARSE" || found.Field != "shapes[0].text" || found.Line != 1 || found.Column != 5 {
		t.Errorf("%+v", found)
	}
	if found.Details["source_line"] != "f32[?]" || len(found.Details) != 1 {
		t.Error(found.Details)
	}
	if want := "xlashape: shapes[0].text: line 1, column 5: expected a size (PARSE)"; err.Error() != want {
		t.Error(err)
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Error(status.Code(err))
	}
}

func TestTimeout(t *testing.T) {
	address := serve(t, "tcp", "127.0.0.1:0", func(ctx context.Context) (*xlashapev1.ByteSizeResponse, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	})
	_, err := connect(t, address, WithTimeout(50*time.Millisecond)).ByteSize(context.Background(), Shape("f32[]"))
	if !errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.DeadlineExceeded {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := connect(t, address).ByteSize(ctx, Shape("f32[]")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestCallsAreRepeatedWhileTheServerIsUnavailable(t *testing.T) {
	calls := 0
	address := serve(t, "tcp", "127.0.0.1:0", func(context.Context) (*xlashapev1.ByteSizeResponse, error) {
		if calls++; calls < 3 {
			return nil, status.Error(codes.Unavailable, "restarting")
		}
		return answer(96)
	})
	size, err := connect(t, address).ByteSize(context.Background(), Shape("f32[]"))
	if err != nil || size.GetPhysicalBytes() != 96 || calls != 3 {
		t.Fatal(size, err, calls)
	}
	calls = 0
	if _, err := connect(t, address, WithAttempts(1)).ByteSize(context.Background(), Shape("f32[]")); status.Code(err) != codes.Unavailable || calls != 1 {
		t.Fatal(err, calls)
	}
	if _, err := Connect(address, WithAttempts(6)); reasonOf(err) != "INVALID_ARGUMENT" {
		t.Fatal(err)
	}
}

func TestUnixSocketAndToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	var sent []string
	serve(t, "unix", path, func(ctx context.Context) (*xlashapev1.ByteSizeResponse, error) {
		sent = metadata.ValueFromIncomingContext(ctx, "authorization")
		return answer(1)
	})
	if _, err := connect(t, "unix:"+path, WithToken("secret")).ByteSize(context.Background(), Shape("f32[]")); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 1 || sent[0] != "Bearer secret" {
		t.Fatal(sent)
	}
}

func TestCallsGoToAllAddresses(t *testing.T) {
	var addresses []string
	for i := range int64(2) {
		addresses = append(addresses, serve(t, "tcp", "127.0.0.1:0", func(context.Context) (*xlashapev1.ByteSizeResponse, error) { return answer(i) }))
	}
	client, seen := connect(t, addresses[0], WithAddresses(addresses[1])), map[int64]int{}
	for range 200 {
		size, err := client.ByteSize(context.Background(), Shape("f32[]"))
		if err != nil {
			t.Fatal(err)
		}
		seen[size.GetPhysicalBytes()]++
		if len(seen) == 2 {
			return
		}
	}
	t.Fatal("only one server was asked")
}

func TestServerThatAnswersLess(t *testing.T) {
	address := serve(t, "tcp", "127.0.0.1:0", func(context.Context) (*xlashapev1.ByteSizeResponse, error) {
		return &xlashapev1.ByteSizeResponse{}, nil
	})
	if _, err := connect(t, address).ByteSize(context.Background(), Shape("f32[]")); reasonOf(err) != "INVALID_ANSWER" {
		t.Fatal(err)
	}
}

// TestAnotherCopyOfXLAsSchema registers XLA's file and names in this process, as a program does that links XLA's own schema.
func TestAnotherCopyOfXLAsSchema(t *testing.T) {
	text := func(value string) *string { return &value }
	number := int32(0)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: text("xla/xla_data.proto"), Package: text("xla"), Syntax: text("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: text("ShapeProto")}, {Name: text("LayoutProto")}, {Name: text("TileProto")}},
		EnumType: []*descriptorpb.EnumDescriptorProto{
			{Name: text("PrimitiveType"), Value: []*descriptorpb.EnumValueDescriptorProto{{Name: text("PRIMITIVE_TYPE_INVALID"), Number: &number}}},
			{Name: text("RandomAlgorithm"), Value: []*descriptorpb.EnumValueDescriptorProto{{Name: text("RNG_DEFAULT"), Number: &number}}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
		t.Fatal(err)
	}
}

func TestEndOfStreamIsNoError(t *testing.T) {
	if errorOf(io.EOF) != io.EOF || errorOf(nil) != nil {
		t.Fatal("io.EOF ends a stream")
	}
}

func TestInterceptorsAreAddedToTheClientsOwn(t *testing.T) {
	address := serve(t, "tcp", "127.0.0.1:0", func(context.Context) (*xlashapev1.ByteSizeResponse, error) {
		return nil, status.Error(codes.NotFound, "nothing")
	})
	var seen error
	client := connect(t, address, WithDialOptions(grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, answer any,
		connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		seen = invoke(ctx, method, request, answer, connection, options...)
		return seen
	})))
	_, err := client.ByteSize(context.Background(), Shape("f32[]"))
	var found *Error
	if !errors.As(err, &found) || !errors.As(seen, &found) || found.Code != codes.NotFound {
		t.Fatal(err, seen)
	}
}

func TestATokenMayChangeWithEachCall(t *testing.T) {
	var sent, agents []string
	address := serve(t, "tcp", "127.0.0.1:0", func(ctx context.Context) (*xlashapev1.ByteSizeResponse, error) {
		sent = append(sent, metadata.ValueFromIncomingContext(ctx, "authorization")...)
		agents = metadata.ValueFromIncomingContext(ctx, "user-agent")
		return answer(1)
	})
	number := 0
	client := connect(t, address, WithTokenSource(func(context.Context) (string, error) {
		number++
		return strconv.Itoa(number), nil
	}))
	for range 2 {
		if _, err := client.ByteSize(context.Background(), Shape("f32[]")); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(sent, []string{"Bearer 1", "Bearer 2"}) || !strings.HasPrefix(agents[0], "xlashape-go/"+Version) {
		t.Fatal(sent, agents)
	}
	none := connect(t, address, WithTokenSource(func(context.Context) (string, error) { return "", errors.New("no token") }))
	if _, err := none.ByteSize(context.Background(), Shape("f32[]")); status.Code(err) != codes.Unauthenticated {
		t.Fatal(err)
	}
}

func TestWaitUntilReady(t *testing.T) {
	address := serve(t, "tcp", "127.0.0.1:0", func(context.Context) (*xlashapev1.ByteSizeResponse, error) { return answer(1) })
	if err := connect(t, address).WaitUntilReady(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := connect(t, "127.0.0.1:1").WaitUntilReady(ctx); reachable(err) {
		t.Fatal(err)
	}
}

func reachable(err error) bool {
	return status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded
}

// TestOneIteratorInTwoGoroutines is for the race detector: go test -race.
func TestOneIteratorInTwoGoroutines(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	xlashapev1.RegisterHloServiceServer(server, fakePages{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	instructions := connect(t, listener.Addr().String()).ListInstructions(context.Background(), &xlashapev1.ListInstructionsRequest{})
	var group sync.WaitGroup
	for range 2 {
		group.Add(1)
		go func() {
			defer group.Done()
			count := 0
			for instruction, err := range instructions {
				if err != nil || instruction.GetName() != strconv.Itoa(count) {
					t.Error(count, instruction, err)
					return
				}
				count++
			}
			if count != 20 {
				t.Error(count)
			}
		}()
	}
	group.Wait()
}

// fakePages has twenty instructions, one a page.
type fakePages struct {
	xlashapev1.UnimplementedHloServiceServer
}

func (fakePages) ListInstructions(_ context.Context, request *xlashapev1.ListInstructionsRequest) (*xlashapev1.ListInstructionsResponse, error) {
	number, _ := strconv.Atoi(request.GetPageToken())
	answer := &xlashapev1.ListInstructionsResponse{Instructions: []*xlashapev1.Instruction{{Name: strconv.Itoa(number)}}}
	if number < 19 {
		answer.NextPageToken = strconv.Itoa(number + 1)
	}
	return answer, nil
}

// fakeUploads keeps what it received, and how the stream ended.
type fakeUploads struct {
	xlashapev1.UnimplementedHloServiceServer
	parts [][]byte
	ended chan error
}

func (f *fakeUploads) UploadModule(stream grpc.ClientStreamingServer[xlashapev1.UploadModuleRequest, xlashapev1.UploadModuleResponse]) error {
	for {
		part, err := stream.Recv()
		if err != nil {
			f.ended <- err
			return stream.SendAndClose(&xlashapev1.UploadModuleResponse{Module: &xlashapev1.Module{Name: "modules/1"}})
		}
		if len(part.GetData()) > 0 {
			f.parts = append(f.parts, part.GetData())
		}
	}
}

func TestUploadFromAReader(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, uploads := grpc.NewServer(), &fakeUploads{ended: make(chan error, 1)}
	xlashapev1.RegisterHloServiceServer(server, uploads)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client, content := connect(t, listener.Addr().String()), bytes.Repeat([]byte("0123456789"), 250_000)

	// A reader that gives little at a time is sent in parts of 1 MiB all the same.
	var told []int64
	module, err := client.UploadModuleFrom(context.Background(), iotest.HalfReader(bytes.NewReader(content)), func(sent int64) { told = append(told, sent) })
	if err != nil || module.GetName() != "modules/1" || !slices.Equal(told, []int64{1 << 20, 2 << 20, 2_500_000}) {
		t.Fatal(module, err, told)
	}
	if ended := <-uploads.ended; ended != io.EOF || len(uploads.parts) != 3 || !bytes.Equal(bytes.Join(uploads.parts, nil), content) {
		t.Fatal(ended, len(uploads.parts))
	}

	// io.ErrUnexpectedEOF is how readers of archives tell that the archive is cut off.
	for _, failure := range []error{errors.New("the disk is gone"), io.ErrUnexpectedEOF} {
		broken := io.MultiReader(bytes.NewReader(content), iotest.ErrReader(failure))
		if _, err := client.UploadModuleFrom(context.Background(), broken, nil); err != failure {
			t.Fatal(err)
		}
		if ended := <-uploads.ended; status.Code(ended) != codes.Canceled {
			t.Fatal(ended)
		}
	}
}
