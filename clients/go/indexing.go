package xlashape

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// MapText is an indexing map in text: (d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3].
func MapText(text string) *xlashapev1.MapInput {
	return &xlashapev1.MapInput{Form: &xlashapev1.MapInput_Text{Text: text}}
}

// MapMessage is an indexing map as a message.
func MapMessage(message *xlashapev1.IndexingMap) *xlashapev1.MapInput {
	return &xlashapev1.MapInput{Form: &xlashapev1.MapInput_Map{Map: message}}
}

// IndexingMaps returns an iterator over the maps of a module's instructions, or of one. It ends after the first error; leaving the loop ends the call.
func (c *Client) IndexingMaps(ctx context.Context, request *xlashapev1.IndexingMapsRequest) iter.Seq2[*xlashapev1.IndexingMapsResponse, error] {
	return answers(ctx, request, c.Indexing.IndexingMaps)
}

// InstructionMaps returns the maps of one instruction.
func (c *Client) InstructionMaps(ctx context.Context, request *xlashapev1.InstructionMapsRequest) (*xlashapev1.InstructionMapsResponse, error) {
	return c.Indexing.InstructionMaps(ctx, request)
}

// OperandReads returns an iterator over how efficiently a module's instructions, or one, read their operands. It ends after the first error; leaving
// the loop ends the call.
func (c *Client) OperandReads(ctx context.Context, request *xlashapev1.OperandReadsRequest) iter.Seq2[*xlashapev1.OperandReadsResponse, error] {
	return answers(ctx, request, c.Indexing.OperandReads)
}

// OperandTiles returns the tile of each operand that a tile of an instruction's output reads.
func (c *Client) OperandTiles(ctx context.Context, request *xlashapev1.OperandTilesRequest) (*xlashapev1.OperandTilesResponse, error) {
	return c.Indexing.OperandTiles(ctx, request)
}

// SimplifyMap simplifies a map.
func (c *Client) SimplifyMap(ctx context.Context, input *xlashapev1.MapInput) (*xlashapev1.MapOutput, error) {
	answer, err := c.Indexing.SimplifyMap(ctx, &xlashapev1.SimplifyMapRequest{Maps: []*xlashapev1.MapInput{input}})
	simplified, err := one(each(answer.GetMaps(), 1, err))
	return simplified.GetMap(), err
}

// ComposeMaps returns the composition of two or more maps, the first of which is applied first.
func (c *Client) ComposeMaps(ctx context.Context, chain ...*xlashapev1.MapInput) (*xlashapev1.MapOutput, error) {
	answer, err := c.Indexing.ComposeMaps(ctx, &xlashapev1.ComposeMapsRequest{Chains: []*xlashapev1.MapChain{{Maps: chain}}})
	return one(each(answer.GetMaps(), 1, err))
}

// EvaluateMap lets the server evaluate a map at any number of points, which stand one after another, each with one number for every variable. It
// returns the results one after another, 0 for points outside the domain, and for each point whether it is in the domain. Many points are sent as a
// stream. A map without variables is not for this method, since its points have no numbers. [Map] does the same without the server.
func (c *Client) EvaluateMap(ctx context.Context, input *xlashapev1.MapInput, points []int64) ([]int64, []bool, error) {
	if len(points) <= unaryAnswers {
		answer, err := c.Indexing.EvaluateMap(ctx, &xlashapev1.EvaluateMapRequest{Map: input, Points: points})
		return answer.GetResults(), answer.GetInDomain(), err
	}
	width, err := variables(input)
	if err != nil {
		return nil, nil, err
	}
	var results []int64
	var inDomain []bool
	err = inParts(ctx, points, width, unaryAnswers*max(width, 1), c.Indexing.EvaluateMapBatch, &xlashapev1.EvaluateMapBatchRequest{Map: input},
		func(part []int64) *xlashapev1.EvaluateMapBatchRequest {
			return &xlashapev1.EvaluateMapBatchRequest{Points: part}
		},
		func(answer *xlashapev1.EvaluateMapBatchResponse) {
			results, inDomain = append(results, answer.GetResults()...), append(inDomain, answer.GetInDomain()...)
		})
	return results, inDomain, err
}

// variables returns how many numbers a point of the map has.
func variables(input *xlashapev1.MapInput) (int, error) {
	if message := input.GetMap(); message != nil {
		return len(message.GetDimensions()) + len(message.GetRanges()) + len(message.GetRuntime()), nil
	}
	m, err := ParseMap(input.GetText())
	if err != nil {
		return 0, err
	}
	return m.Variables(), nil
}

func answers[Request, Response any](
	ctx context.Context,
	request *Request,
	open func(context.Context, *Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Response], error),
) iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := open(ctx, request)
		for err == nil {
			var response *Response
			if response, err = stream.Recv(); err == nil && !yield(response, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}
