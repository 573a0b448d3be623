// Command conformance is the testee of the Go client: it does what tests/conformance/run.py asks, and tells how it ended.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing/iotest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	xlashape "github.com/xlashape/xlashape/clients/go"
	"github.com/xlashape/xlashape/clients/go/conformance/testeepb"
	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(from io.Reader, to io.Writer) error {
	input, output := bufio.NewReader(from), bufio.NewWriter(to)
	var t testee
	for {
		request := &testeepb.Request{}
		err := protodelim.UnmarshalOptions{MaxSize: -1}.UnmarshalFrom(input, request)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		response := &testeepb.Response{}
		t.report(response, t.do(request, response))
		if _, err := protodelim.MarshalTo(output, response); err != nil {
			return err
		}
		if err := output.Flush(); err != nil {
			return err
		}
	}
}

type testee struct {
	client *xlashape.Client
	token  string
}

// report adds the error that a request ended with.
func (t *testee) report(response *testeepb.Response, err error) {
	if err == nil {
		return
	}
	var refused *xlashape.Error
	if !errors.As(err, &refused) {
		response.Failure = err.Error()
		return
	}
	response.Error = &testeepb.Error{
		Code: int32(refused.Code), Reason: refused.Reason, Message: refused.Message, Field: refused.Field,
		Line: int32(refused.Line), Column: int32(refused.Column), Details: refused.Details,
	}
}

func (t *testee) do(request *testeepb.Request, response *testeepb.Response) error {
	ctx := context.Background()
	switch action := request.GetAction().(type) {
	case *testeepb.Request_Start:
		return t.start(action.Start)
	case *testeepb.Request_Call:
		return t.call(ctx, action.Call, response)
	case *testeepb.Request_Evaluation:
		return t.evaluate(ctx, action.Evaluation, response)
	case *testeepb.Request_Upload:
		return t.upload(ctx, action.Upload, response)
	case *testeepb.Request_Pages:
		return t.pages(ctx, action.Pages, response)
	case *testeepb.Request_Bulk:
		return t.bulk(ctx, action.Bulk, response)
	}
	return fmt.Errorf("unknown action %T", request.GetAction())
}

var errReader = errors.New("the reader failed")

// upload stores a module, from a reader if that is asked for.
func (t *testee) upload(ctx context.Context, upload *testeepb.Upload, response *testeepb.Response) error {
	if upload.GetReadBytes() == 0 {
		module, sent, err := t.client.UploadModule(ctx, upload.GetContent())
		if err != nil {
			return err
		}
		response.Sent = sent
		return add(response, module)
	}
	var from io.Reader = &pieces{bytes.NewReader(upload.GetContent()), int(upload.GetReadBytes())}
	if upload.GetReaderFails() {
		from = io.MultiReader(from, iotest.ErrReader(errReader))
	}
	module, err := t.client.UploadModuleFrom(ctx, from, func(sent int64) { response.Progress = append(response.Progress, sent) })
	if errors.Is(err, errReader) {
		response.ReaderFailed = true
		return nil
	}
	if err != nil {
		return err
	}
	response.Sent = true
	return add(response, module)
}

// pieces gives at most `most` bytes at a time.
type pieces struct {
	from io.Reader
	most int
}

func (p *pieces) Read(to []byte) (int, error) {
	return p.from.Read(to[:min(len(to), p.most)])
}

func (t *testee) start(start *testeepb.Start) error {
	if start.GetTransport() != testeepb.Transport_TRANSPORT_GRPC {
		return fmt.Errorf("unknown transport %s", start.GetTransport())
	}
	t.token = start.GetToken()
	options := []xlashape.Option{
		xlashape.WithTokenSource(func(context.Context) (string, error) { return t.token, nil }),
		xlashape.WithMaxAnswer(4 << 20), // what gRPC receives by default has to do
		xlashape.WithAddresses(start.GetMoreAddresses()...),
	}
	if roots := start.GetRootCertificates(); len(roots) > 0 {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(roots)
		config := &tls.Config{RootCAs: pool}
		if pem := start.GetClientCertificate(); len(pem) > 0 {
			pair, err := tls.X509KeyPair(pem, start.GetClientKey())
			if err != nil {
				return err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, xlashape.WithTLS(config))
	}
	client, err := xlashape.Connect(start.GetAddress(), options...)
	if err != nil {
		return err
	}
	if t.client != nil {
		_ = t.client.Close()
	}
	t.client = client
	return nil
}

// call makes a call of any RPC with messages of the types that the schema declares: with the client's methods of its name, if they send the request, and
// with the client's connection otherwise.
func (t *testee) call(ctx context.Context, call *testeepb.Call, response *testeepb.Response) error {
	service, method, _ := strings.Cut(call.GetRpc(), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("xlashape.v1." + service + "." + method))
	if err != nil {
		return err
	}
	rpc := found.(protoreflect.MethodDescriptor)
	var requests []proto.Message
	for _, data := range call.GetRequests() {
		message, err := newMessage(rpc.Input())
		if err != nil {
			return err
		}
		if err := proto.Unmarshal(data, message); err != nil {
			return err
		}
		requests = append(requests, message)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if call.GetTimeoutMs() > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(call.GetTimeoutMs())*time.Millisecond)
		defer cancel()
	}
	if after := call.GetCancelAfterMs(); after > 0 {
		time.AfterFunc(time.Duration(after)*time.Millisecond, cancel)
	}
	if token := call.GetToken(); token != "" {
		t.token = token
	}
	path := "/xlashape.v1." + call.GetRpc()
	if !rpc.IsStreamingClient() && !rpc.IsStreamingServer() {
		answer, err := newMessage(rpc.Output())
		if err != nil {
			return err
		}
		if found, err := t.public(ctx, call.GetRpc(), requests[0], answer); found != nil || err != nil {
			if err != nil {
				return err
			}
			return add(response, found)
		}
		response.Below = true
		if err := t.client.Connection().Invoke(ctx, path, requests[0], answer); err != nil {
			return err
		}
		return add(response, answer)
	}
	response.Below = true
	description := &grpc.StreamDesc{StreamName: method, ServerStreams: rpc.IsStreamingServer(), ClientStreams: rpc.IsStreamingClient()}
	stream, err := t.client.Connection().NewStream(ctx, description, path)
	if err != nil {
		return err
	}
	go func() {
		for _, request := range requests {
			if stream.SendMsg(request) != nil {
				return // RecvMsg gives the reason
			}
		}
		if !call.GetKeepOpen() {
			_ = stream.CloseSend()
		}
	}()
	for call.GetStopAfter() == 0 || len(response.Answers) < int(call.GetStopAfter()) {
		answer, err := newMessage(rpc.Output())
		if err != nil {
			return err
		}
		if err := stream.RecvMsg(answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := add(response, answer); err != nil {
			return err
		}
	}
	return nil
}

// public makes a call with the client's methods of its name. It returns nothing if none of them sends this request.
func (t *testee) public(ctx context.Context, rpc string, request, answer proto.Message) (proto.Message, error) {
	_, name, _ := strings.Cut(rpc, "/")
	method := reflect.ValueOf(t.client).MethodByName(name)
	if method.IsValid() && method.Type().NumIn() == 2 && method.Type().In(1) == reflect.TypeOf(request) && method.Type().Out(0) == reflect.TypeOf(answer) {
		returned := method.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(request)})
		err, _ := returned[1].Interface().(error)
		return returned[0].Interface().(proto.Message), err
	}
	var fields []string
	request.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, string(field.Name()))
		return true
	})
	slices.Sort(fields)
	switch asked := request.(type) {
	case *xlashapev1.DescribeShapeRequest:
		if len(asked.GetShapes()) == 1 {
			one, err := t.client.DescribeShape(ctx, asked.GetShapes()[0])
			return &xlashapev1.DescribeShapeResponse{Descriptions: []*xlashapev1.ShapeDescription{one}}, err
		}
		all, err := t.client.DescribeShapes(ctx, asked.GetShapes()...)
		return &xlashapev1.DescribeShapeResponse{Descriptions: all}, err
	case *xlashapev1.ByteSizeRequest:
		if asked.GetPointerSize() != 0 {
			return nil, nil
		}
		if len(asked.GetShapes()) == 1 {
			one, err := t.client.ByteSize(ctx, asked.GetShapes()[0])
			return &xlashapev1.ByteSizeResponse{Sizes: []*xlashapev1.ShapeSize{one}}, err
		}
		all, err := t.client.ByteSizes(ctx, asked.GetShapes()...)
		return &xlashapev1.ByteSizeResponse{Sizes: all}, err
	case *xlashapev1.LinearIndexRequest:
		if asked.GetCount() == 1 {
			position, err := t.client.LinearIndex(ctx, asked.GetShape(), asked.GetIndices()...)
			return &xlashapev1.LinearIndexResponse{Positions: []int64{position}}, err
		}
	case *xlashapev1.MultiIndexRequest:
		if len(asked.GetPositions()) == 1 {
			index, err := t.client.MultiIndex(ctx, asked.GetShape(), asked.GetPositions()[0])
			return &xlashapev1.MultiIndexResponse{Indices: index, IsElement: []bool{index != nil}}, err
		}
	case *xlashapev1.GetModuleRequest:
		if slices.Equal(fields, []string{"include_content", "name"}) {
			var content bytes.Buffer
			if _, err := t.client.DownloadModule(ctx, asked.GetName(), &content); err != nil {
				return nil, err
			}
			module, err := t.client.GetModule(ctx, asked.GetName())
			return &xlashapev1.GetModuleResponse{Module: module, Content: content.Bytes()}, err
		}
		if slices.Equal(fields, []string{"name"}) {
			module, err := t.client.GetModule(ctx, asked.GetName())
			return &xlashapev1.GetModuleResponse{Module: module}, err
		}
	case *xlashapev1.PutModuleRequest:
		if asked.GetSha256() == "" {
			module, sent, err := t.client.UploadModule(ctx, asked.GetData())
			return &xlashapev1.PutModuleResponse{Module: module, AlreadyPresent: !sent}, err
		}
	case *xlashapev1.DeleteModuleRequest:
		return &xlashapev1.DeleteModuleResponse{}, t.client.DeleteModule(ctx, asked.GetName())
	case *xlashapev1.ParseMapRequest:
		if len(asked.GetMaps()) == 1 && len(fields) == 1 {
			read, err := t.client.ParseMap(ctx, asked.GetMaps()[0])
			return &xlashapev1.ParseMapResponse{Maps: []*xlashapev1.MapOutput{read}}, err
		}
	case *xlashapev1.SimplifyMapRequest:
		if len(asked.GetMaps()) == 1 && len(fields) == 1 {
			simplified, err := t.client.SimplifyMap(ctx, asked.GetMaps()[0])
			return &xlashapev1.SimplifyMapResponse{Maps: []*xlashapev1.SimplifiedMap{{Map: simplified}}}, err
		}
	case *xlashapev1.ComposeMapsRequest:
		if len(asked.GetChains()) == 1 && len(fields) == 1 {
			composed, err := t.client.ComposeMaps(ctx, asked.GetChains()[0].GetMaps()...)
			return &xlashapev1.ComposeMapsResponse{Maps: []*xlashapev1.MapOutput{composed}}, err
		}
	}
	return nil, nil
}

func (t *testee) evaluate(ctx context.Context, evaluation *testeepb.Evaluation, response *testeepb.Response) error {
	message, err := t.mapOf(ctx, evaluation)
	if err != nil {
		return err
	}
	answer := &xlashapev1.EvaluateMapResponse{}
	points, count := evaluation.GetPoints(), int(evaluation.GetCount())
	if !message.GetFitsInt64() {
		if answer.Results, answer.InDomain, err = t.client.EvaluateMap(ctx, xlashape.MapMessage(message), points); err != nil {
			return err
		}
		return add(response, answer)
	}
	m, err := xlashape.NewEvaluableMap(message)
	if err != nil {
		return err
	}
	if evaluation.GetBatch() {
		if answer.Results, answer.InDomain, err = m.EvaluateBatch(points, count); err != nil {
			return err
		}
		return add(response, answer)
	}
	for i := range count {
		width := len(points) / count
		results, in, err := m.Evaluate(points[i*width : (i+1)*width]...)
		if err != nil {
			return err
		}
		if !in {
			results = make([]int64, m.Results())
		}
		answer.Results, answer.InDomain = append(answer.Results, results...), append(answer.InDomain, in)
	}
	return add(response, answer)
}

// mapOf is the map to evaluate. The server reads a map in text.
func (t *testee) mapOf(ctx context.Context, evaluation *testeepb.Evaluation) (*xlashapev1.IndexingMap, error) {
	if text, is := evaluation.GetMap().(*testeepb.Evaluation_Text); is {
		parsed, err := t.client.ParseMap(ctx, xlashape.MapText(text.Text))
		return parsed.GetMap(), err
	}
	message := &xlashapev1.IndexingMap{}
	return message, proto.Unmarshal(evaluation.GetMessage(), message)
}

func (t *testee) pages(ctx context.Context, pages *testeepb.Pages, response *testeepb.Response) error {
	if pages.GetRpc() == "HloService/ListInstructions" {
		request := &xlashapev1.ListInstructionsRequest{}
		if err := proto.Unmarshal(pages.GetRequest(), request); err != nil {
			return err
		}
		for instruction, err := range t.client.ListInstructions(ctx, request) {
			if err != nil {
				return err
			}
			if err := add(response, instruction); err != nil {
				return err
			}
		}
		return nil
	}
	request := &xlashapev1.SizeRequest{}
	if err := proto.Unmarshal(pages.GetRequest(), request); err != nil {
		return err
	}
	for row, err := range t.client.SizeRows(ctx, request) {
		if err != nil {
			return err
		}
		if err := add(response, row); err != nil {
			return err
		}
	}
	return nil
}

func (t *testee) bulk(ctx context.Context, bulk *testeepb.Bulk, response *testeepb.Response) error {
	switch bulk.GetRpc() {
	case "ShapeService/LinearIndices":
		first := &xlashapev1.LinearIndicesRequest{}
		if err := proto.Unmarshal(bulk.GetRequest(), first); err != nil {
			return err
		}
		positions, err := t.client.LinearIndices(ctx, first.GetShape(), first.GetOrder(), bulk.GetNumbers())
		if err != nil {
			return err
		}
		return add(response, &xlashapev1.LinearIndexResponse{Positions: positions})
	case "ShapeService/MultiIndices":
		first := &xlashapev1.MultiIndicesRequest{}
		if err := proto.Unmarshal(bulk.GetRequest(), first); err != nil {
			return err
		}
		indices, isElement, err := t.client.MultiIndices(ctx, first.GetShape(), first.GetOrder(), bulk.GetNumbers())
		if err != nil {
			return err
		}
		return add(response, &xlashapev1.MultiIndexResponse{Indices: indices, IsElement: isElement})
	}
	first := &xlashapev1.EvaluateMapBatchRequest{}
	if err := proto.Unmarshal(bulk.GetRequest(), first); err != nil {
		return err
	}
	results, inDomain, err := t.client.EvaluateMap(ctx, first.GetMap(), bulk.GetNumbers())
	if err != nil {
		return err
	}
	return add(response, &xlashapev1.EvaluateMapResponse{Results: results, InDomain: inDomain})
}

func newMessage(descriptor protoreflect.MessageDescriptor) (proto.Message, error) {
	found, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
	if err != nil {
		return nil, err
	}
	return found.New().Interface(), nil
}

func add(response *testeepb.Response, answer proto.Message) error {
	data, err := proto.Marshal(answer)
	response.Answers = append(response.Answers, data)
	return err
}
