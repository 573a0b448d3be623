package xlashape

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"google.golang.org/grpc/codes"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// partBytes is the size of a part of a module that is sent in several messages.
const partBytes = 1 << 20

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
	first := &xlashapev1.UploadModuleRequest{Sha256: name, SizeBytes: int64(len(content))}
	module, err = c.sendParts(ctx, first, bytes.NewReader(content), nil)
	return module, true, err
}

// UploadModuleFrom stores a module that is sent while it is read, in parts of 1 MiB, whether or not the server has it. `progress` is told how many
// bytes were sent, after each part; it may be nil. An error of the reader ends the call, stores nothing, and is returned as it is.
func (c *Client) UploadModuleFrom(ctx context.Context, from io.Reader, progress func(sent int64)) (*xlashapev1.Module, error) {
	return c.sendParts(ctx, &xlashapev1.UploadModuleRequest{}, from, progress)
}

// sendParts sends a module in parts. `part` has what else the first message says.
func (c *Client) sendParts(
	ctx context.Context, part *xlashapev1.UploadModuleRequest, from io.Reader, progress func(sent int64),
) (*xlashapev1.Module, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Modules.UploadModule(ctx)
	if err != nil {
		return nil, err
	}
	var sent int64
	for {
		if part.Data, err = io.ReadAll(io.LimitReader(from, partBytes)); err != nil {
			return nil, err // without its last message the stream is refused
		}
		part.MoreFollows = len(part.Data) > 0
		if stream.Send(part) != nil || !part.MoreFollows {
			break // CloseAndRecv gives the module, or the reason
		}
		sent += int64(len(part.Data))
		if progress != nil {
			progress(sent)
		}
		part = &xlashapev1.UploadModuleRequest{}
	}
	answer, err := stream.CloseAndRecv()
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
