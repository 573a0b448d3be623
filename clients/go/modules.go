package xlashape

import (
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
