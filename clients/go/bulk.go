package xlashape

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
)

const (
	// unaryNumbers is the number of int64 that one message carries: 2 MiB, half of what gRPC receives by default.
	unaryNumbers = 1 << 18
	// unaryAnswers is the number of questions in one message whose answers are several times as large.
	unaryAnswers = 1 << 14
)

// inParts sends numbers over a stream in parts of at most `most` numbers, each of whole rows of `width` numbers, while it reads the answers.
func inParts[Request, Response any](
	ctx context.Context,
	numbers []int64,
	width int,
	most int,
	open func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Request, Response], error),
	request func(part []int64, isFirst bool) *Request,
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
		for start := 0; start == 0 || start < len(numbers); start += size {
			if stream.Send(request(numbers[start:min(start+size, len(numbers))], start == 0)) != nil {
				return // Recv gives the reason
			}
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
