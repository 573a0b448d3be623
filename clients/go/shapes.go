package xlashape

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// Shape is a shape in XLA's text: f32[8,128]{1,0:T(8,128)}. A missing layout stands for the default layout.
func Shape(text string) *xlashapev1.ShapeInput {
	return &xlashapev1.ShapeInput{Form: &xlashapev1.ShapeInput_Text{Text: text}}
}

// SerializedShape is a shape as the bytes of an xla.ShapeProto.
func SerializedShape(proto []byte) *xlashapev1.ShapeInput {
	return &xlashapev1.ShapeInput{Form: &xlashapev1.ShapeInput_Serialized{Serialized: proto}}
}

// DescribeShape describes a shape: its canonical text, sizes, layout, and why its buffer is larger than its elements.
func (c *Client) DescribeShape(ctx context.Context, shape *xlashapev1.ShapeInput) (*xlashapev1.ShapeDescription, error) {
	return one(c.DescribeShapes(ctx, shape))
}

// DescribeShapes describes each shape, in one call.
func (c *Client) DescribeShapes(ctx context.Context, shapes ...*xlashapev1.ShapeInput) ([]*xlashapev1.ShapeDescription, error) {
	answer, err := c.Shapes.DescribeShape(ctx, &xlashapev1.DescribeShapeRequest{Shapes: shapes})
	return each(answer.GetDescriptions(), len(shapes), err)
}

// ByteSize returns the sizes of a shape in elements and bytes.
func (c *Client) ByteSize(ctx context.Context, shape *xlashapev1.ShapeInput) (*xlashapev1.ShapeSize, error) {
	return one(c.ByteSizes(ctx, shape))
}

// ByteSizes returns the sizes of each shape, in one call.
func (c *Client) ByteSizes(ctx context.Context, shapes ...*xlashapev1.ShapeInput) ([]*xlashapev1.ShapeSize, error) {
	answer, err := c.Shapes.ByteSize(ctx, &xlashapev1.ByteSizeRequest{Shapes: shapes})
	return each(answer.GetSizes(), len(shapes), err)
}

// LinearIndex returns the position in the buffer, in elements, of the element at an index.
func (c *Client) LinearIndex(ctx context.Context, shape *xlashapev1.ShapeInput, index ...int64) (int64, error) {
	answer, err := c.Shapes.LinearIndex(ctx, &xlashapev1.LinearIndexRequest{Shape: shape, Indices: index, Count: proto.Int64(1)})
	return one(each(answer.GetPositions(), 1, err))
}

// LinearIndices returns the positions of the elements at any number of indices, which stand one after another in `indices`, each with one number for
// every dimension of the shape. Many indices are sent as a stream. It is not for scalars, whose indices have no numbers.
func (c *Client) LinearIndices(ctx context.Context, shape *xlashapev1.ShapeInput, order xlashapev1.LinearOrder, indices []int64) ([]int64, error) {
	if len(indices) <= unaryNumbers {
		answer, err := c.Shapes.LinearIndex(ctx, &xlashapev1.LinearIndexRequest{Shape: shape, Order: order, Indices: indices})
		return answer.GetPositions(), err
	}
	rank, err := c.rank(ctx, shape)
	if err != nil {
		return nil, err
	}
	positions := make([]int64, 0, len(indices)/max(rank, 1))
	first := &xlashapev1.LinearIndicesRequest{Shape: shape, Order: order}
	err = inParts(ctx, indices, rank, unaryNumbers, c.Shapes.LinearIndices, first,
		func(part []int64) *xlashapev1.LinearIndicesRequest {
			return &xlashapev1.LinearIndicesRequest{Indices: part}
		},
		func(answer *xlashapev1.LinearIndicesResponse) {
			positions = append(positions, answer.GetPositions()...)
		})
	return positions, err
}

// MultiIndex returns the index of the element at a position of the buffer; nil if the position is padding.
func (c *Client) MultiIndex(ctx context.Context, shape *xlashapev1.ShapeInput, position int64) ([]int64, error) {
	answer, err := c.Shapes.MultiIndex(ctx, &xlashapev1.MultiIndexRequest{Shape: shape, Positions: []int64{position}})
	if isElement, err := one(each(answer.GetIsElement(), 1, err)); err != nil || !isElement {
		return nil, err
	}
	return append([]int64{}, answer.GetIndices()...), nil
}

// MultiIndices returns the indices of the elements at any number of positions, one after another, and for each position whether it holds an element.
// The numbers of a position that is padding are -1. Many positions are sent as a stream.
func (c *Client) MultiIndices(ctx context.Context, shape *xlashapev1.ShapeInput, order xlashapev1.LinearOrder, positions []int64) ([]int64, []bool, error) {
	if len(positions) <= unaryAnswers {
		answer, err := c.Shapes.MultiIndex(ctx, &xlashapev1.MultiIndexRequest{Shape: shape, Order: order, Positions: positions})
		return answer.GetIndices(), answer.GetIsElement(), err
	}
	rank, err := c.rank(ctx, shape)
	if err != nil {
		return nil, nil, err
	}
	indices, isElement := make([]int64, 0, rank*len(positions)), make([]bool, 0, len(positions))
	first := &xlashapev1.MultiIndicesRequest{Shape: shape, Order: order}
	err = inParts(ctx, positions, 1, unaryNumbers/(rank+1), c.Shapes.MultiIndices, first,
		func(part []int64) *xlashapev1.MultiIndicesRequest {
			return &xlashapev1.MultiIndicesRequest{Positions: part}
		},
		func(answer *xlashapev1.MultiIndicesResponse) {
			indices, isElement = append(indices, answer.GetIndices()...), append(isElement, answer.GetIsElement()...)
		})
	return indices, isElement, err
}

func (c *Client) rank(ctx context.Context, shape *xlashapev1.ShapeInput) (int, error) {
	description, err := c.DescribeShape(ctx, shape)
	return int(description.GetRank()), err
}

// each passes the answers of a call on, if there is one for each item of the request.
func each[T any](answers []T, expected int, err error) ([]T, error) {
	if err == nil && len(answers) != expected {
		err = mistake("INVALID_ANSWER", "", "the server answered %d of %d items", len(answers), expected)
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// one passes the only answer on.
func one[T any](answers []T, err error) (answer T, _ error) {
	if err == nil {
		answer = answers[0]
	}
	return answer, err
}
