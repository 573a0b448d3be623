package xlashape

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// partBytes is the size of a part of a module that is sent in several messages.
const partBytes = 1 << 20

// ModuleText is a module as HLO text.
func ModuleText(text string) *xlashapev1.ModuleInput {
	return &xlashapev1.ModuleInput{Source: &xlashapev1.ModuleInput_Text{Text: text}}
}

// SerializedModule is a module as the bytes of an xla.HloModuleProto or xla.HloProto.
func SerializedModule(proto []byte) *xlashapev1.ModuleInput {
	return &xlashapev1.ModuleInput{Source: &xlashapev1.ModuleInput_Serialized{Serialized: proto}}
}

// StoredModule is a module that the server has, by its name: modules/{sha256}.
func StoredModule(name string) *xlashapev1.ModuleInput {
	return &xlashapev1.ModuleInput{Source: &xlashapev1.ModuleInput_Name{Name: name}}
}

// UploadModule stores a module: HLO text, or a serialized xla.HloModuleProto or xla.HloProto. A module that the server has already is not sent
// again; `sent` says whether it was.
func (c *Client) UploadModule(ctx context.Context, content []byte) (module *xlashapev1.Module, sent bool, err error) {
	digest := sha256.Sum256(content)
	name := hex.EncodeToString(digest[:])
	known, err := c.GetModule(ctx, "modules/"+name)
	var missing *Error
	if err == nil || !errors.As(err, &missing) || missing.Code != codes.NotFound {
		return known, false, err
	}
	if len(content) <= partBytes {
		answer, err := c.Modules.PutModule(ctx, &xlashapev1.PutModuleRequest{Data: content, Sha256: name})
		return answer.GetModule(), true, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Modules.UploadModule(ctx)
	if err != nil {
		return nil, false, err
	}
	for start := 0; start < len(content); start += partBytes {
		part := &xlashapev1.UploadModuleRequest{Data: content[start:min(start+partBytes, len(content))]}
		if start == 0 {
			part.Sha256, part.SizeBytes = name, int64(len(content))
		}
		if err := stream.Send(part); err != nil {
			break // CloseAndRecv gives the reason
		}
	}
	answer, err := stream.CloseAndRecv()
	return answer.GetModule(), true, err
}

// GetModule describes a stored module. The Code of the error is NotFound if the server does not have it, or no longer.
func (c *Client) GetModule(ctx context.Context, name string) (*xlashapev1.Module, error) {
	answer, err := c.Modules.GetModule(ctx, &xlashapev1.GetModuleRequest{Name: name})
	return answer.GetModule(), err
}

// DownloadModule writes the content of a stored module, as it was uploaded, and returns how many bytes it wrote.
func (c *Client) DownloadModule(ctx context.Context, name string, to io.Writer) (int64, error) {
	var written int64
	for {
		answer, err := c.Modules.GetModule(ctx,
			&xlashapev1.GetModuleRequest{Name: name, IncludeContent: true, ContentOffset: written, ContentLimit: partBytes})
		if err != nil {
			return written, err
		}
		count, err := to.Write(answer.GetContent())
		written += int64(count)
		if err != nil {
			return written, err
		}
		if count == 0 || written >= answer.GetModule().GetSizeBytes() {
			return written, nil
		}
	}
}

// DeleteModule removes a stored module.
func (c *Client) DeleteModule(ctx context.Context, name string) error {
	_, err := c.Modules.DeleteModule(ctx, &xlashapev1.DeleteModuleRequest{Name: name})
	return err
}

// ListInstructions returns an iterator over the instructions of a module, which fetches pages as they are needed. It ends after the first error.
func (c *Client) ListInstructions(ctx context.Context, request *xlashapev1.ListInstructionsRequest) iter.Seq2[*xlashapev1.Instruction, error] {
	request = proto.CloneOf(request)
	return pages(func(token string) ([]*xlashapev1.Instruction, string, error) {
		request.PageToken = token
		answer, err := c.Modules.ListInstructions(ctx, request)
		return answer.GetInstructions(), answer.GetNextPageToken(), err
	}, request.GetPageToken())
}

// InstructionSizes returns an iterator over the bytes that the results of a module's instructions take, which fetches pages as they are needed. It
// ends after the first error.
func (c *Client) InstructionSizes(ctx context.Context, request *xlashapev1.ByteSizesRequest) iter.Seq2[*xlashapev1.InstructionSize, error] {
	request = proto.CloneOf(request)
	return pages(func(token string) ([]*xlashapev1.InstructionSize, string, error) {
		request.PageToken = token
		answer, err := c.Modules.ByteSizes(ctx, request)
		return answer.GetInstructions(), answer.GetNextPageToken(), err
	}, request.GetPageToken())
}

func pages[T any](fetch func(token string) ([]T, string, error), first string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		token := first
		for {
			items, next, err := fetch(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}
