package xlashape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// domain is the domain of the server's google.rpc.ErrorInfo.
const domain = "xlashape"

// An Error is what a call was refused with, or why it did not reach the server. Every function of this package that returns an error returns one,
// unless its comment says otherwise:
//
//	var refused *xlashape.Error
//	if errors.As(err, &refused) && refused.Reason == "PARSE" {
//		fmt.Println(refused.Line, refused.Column)
//	}
//
// errors.Is finds context.Canceled and context.DeadlineExceeded in an Error of those codes.
type Error struct {
	// Code is the status of the call: InvalidArgument, NotFound, ResourceExhausted, DeadlineExceeded, Unavailable, …
	Code codes.Code
	// Reason is the server's name for what is wrong: PARSE, INVALID_INDEX, NOT_FOUND, LIMIT_EXCEEDED, … Empty if the error does not come from xlashape,
	// but from gRPC or from a proxy.
	Reason string
	// Message is what is wrong, in a sentence.
	Message string
	// Field is the path of the wrong field in the request, such as "shapes[3].text". Empty if no field is to blame.
	Field string
	// Line and Column are where text is wrong, both from 1. 0 if the mistake is not in text.
	Line, Column int
	// Details are all other details by name: "limit", "maximum" and "value" of an exceeded limit, "kind" and "name" of what was not found, …
	Details map[string]string

	cause error
}

// Error returns the message with the field, the line and the column.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("xlashape: ")
	if e.Field != "" {
		text.WriteString(e.Field + ": ")
	}
	if e.Line > 0 {
		fmt.Fprintf(&text, "line %d, column %d: ", e.Line, e.Column)
	}
	text.WriteString(e.Message)
	if e.Reason != "" {
		text.WriteString(" (" + e.Reason + ")")
	} else {
		text.WriteString(" (" + e.Code.String() + ")")
	}
	return text.String()
}

// Unwrap returns the error of gRPC, or context.Canceled or context.DeadlineExceeded.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus returns the status of the call, so that status.Code(err) works.
func (e *Error) GRPCStatus() *status.Status {
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(e.cause, &withStatus) {
		return withStatus.GRPCStatus()
	}
	return status.New(e.Code, e.Message)
}

// errorOf makes an *Error of the error of a call. It leaves nil, and io.EOF at the end of a stream, as they are.
func errorOf(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	found, ok := status.FromError(err)
	if !ok {
		found = status.FromContextError(err)
	}
	result := &Error{Code: found.Code(), Message: found.Message(), cause: err}
	switch result.Code {
	case codes.Canceled:
		result.cause = fmt.Errorf("%w: %w", context.Canceled, err)
	case codes.DeadlineExceeded:
		result.cause = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	for _, detail := range found.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != domain {
			continue
		}
		details := maps.Clone(info.GetMetadata())
		take := func(name string) string {
			value := details[name]
			delete(details, name)
			return value
		}
		result.Reason = info.GetReason()
		if message := take("message"); message != "" {
			result.Message = message
		}
		result.Field = take("field")
		result.Line, _ = strconv.Atoi(take("line"))
		result.Column, _ = strconv.Atoi(take("column"))
		result.Details = details
		break
	}
	return result
}

// mistake is an error that this package finds by itself.
func mistake(reason, field, format string, arguments ...any) error {
	return &Error{Code: codes.InvalidArgument, Reason: reason, Field: field, Message: fmt.Sprintf(format, arguments...)}
}
