package xlashape

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

const (
	// unaryNumbers is the number of int64 that one message carries: 2 MiB, half of what gRPC receives by default.
	unaryNumbers = 1 << 18
	// unaryAnswers is the number of questions in one message whose answers are several times as large.
	unaryAnswers = 1 << 14
)

// inParts sends `first` and then numbers over a stream, in parts of at most `most` numbers, each of whole rows of `width` numbers, while it reads answers.
func inParts[Request, Response any](
	ctx context.Context,
	numbers []int64,
	width int,
	most int,
	open func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Request, Response], error),
	first *Request,
	request func(part []int64) *Request,
	answer func(*Response),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	width = max(width, 1)
	size := max(most/width, 1) * width
	go func() {
		err := stream.Send(first)
		for part := range slices.Chunk(numbers, size) {
			if err != nil {
				return // Recv gives the reason
			}
			err = stream.Send(request(part))
		}
		_ = stream.CloseSend()
	}()
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer(response)
	}
}

// rank returns how many numbers an index of the shape has.
func (c *Client) rank(ctx context.Context, shape *xlashapev1.ShapeInput) (int, error) {
	description, err := c.DescribeShape(ctx, shape)
	return int(description.GetRank()), err
}

// variables returns how many numbers a point of the map has. The server reads a map in text.
func (c *Client) variables(ctx context.Context, input *xlashapev1.MapInput) (int, error) {
	message := input.GetMap()
	if message == nil {
		parsed, err := c.ParseMap(ctx, input)
		if err != nil {
			return 0, err
		}
		message = parsed.GetMap()
	}
	return len(message.GetDimensions()) + len(message.GetRanges()) + len(message.GetRuntime()), nil
}
