package guest

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"syscall"

	"connectrpc.com/connect"

	"aether/sandbox"
)

// errUnauthenticated marks a caller that did not say, or prove, who it is.
var errUnauthenticated = errors.New("unauthenticated")

func unauthenticated(field, reason string) error {
	return &sandbox.Error{Class: sandbox.Denied, Field: field, Reason: reason, Err: errUnauthenticated}
}

// errnoClasses are the classes of the system's errors that callers decide on.
var errnoClasses = [...]sandbox.Class{
	syscall.ENOENT: sandbox.NotFound, syscall.ESRCH: sandbox.NotFound,
	syscall.EEXIST: sandbox.Conflict, syscall.ENOTEMPTY: sandbox.Conflict, syscall.EBUSY: sandbox.Conflict,
	syscall.EPIPE: sandbox.Conflict, syscall.ETXTBSY: sandbox.Conflict,
	syscall.EACCES: sandbox.Denied, syscall.EPERM: sandbox.Denied, syscall.EROFS: sandbox.Denied,
	syscall.EINVAL: sandbox.Invalid, syscall.EISDIR: sandbox.Invalid, syscall.ENOTDIR: sandbox.Invalid,
	syscall.ENAMETOOLONG: sandbox.Invalid, syscall.ELOOP: sandbox.Invalid, syscall.EXDEV: sandbox.Invalid,
	syscall.E2BIG: sandbox.Invalid, syscall.ENOEXEC: sandbox.Invalid,
	syscall.ENOSPC: sandbox.Exhausted, syscall.EDQUOT: sandbox.Exhausted, syscall.EMFILE: sandbox.Exhausted,
	syscall.ENFILE: sandbox.Exhausted, syscall.ENOMEM: sandbox.Exhausted,
	syscall.EAGAIN: sandbox.Unavailable,
}

// classOf is sandbox.ClassOf, and reads the system's errors too.
func classOf(err error) sandbox.Class {
	if class := sandbox.ClassOf(err); class != sandbox.Internal {
		return class
	}
	if errors.Is(err, fs.ErrClosed) {
		return sandbox.NotFound // the service was closed in the middle of a call
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && int(errno) < len(errnoClasses) {
		return errnoClasses[errno]
	}
	return sandbox.Internal
}

var codes = [...]connect.Code{
	sandbox.Internal: connect.CodeInternal, sandbox.Invalid: connect.CodeInvalidArgument,
	sandbox.NotFound: connect.CodeNotFound, sandbox.Conflict: connect.CodeFailedPrecondition,
	sandbox.Unsupported: connect.CodeUnimplemented, sandbox.Unavailable: connect.CodeUnavailable,
	sandbox.Exhausted: connect.CodeResourceExhausted, sandbox.Denied: connect.CodePermissionDenied,
	sandbox.Timeout: connect.CodeDeadlineExceeded,
}

// rpcError is the one place where errors become Connect errors.
func rpcError(err error) error {
	var done *connect.Error
	switch {
	case err == nil || errors.As(err, &done):
		return err
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, errUnauthenticated):
		return connect.NewError(connect.CodeUnauthenticated, err)
	case errors.Is(err, syscall.EEXIST):
		return connect.NewError(connect.CodeAlreadyExists, err)
	}
	return connect.NewError(codes[classOf(err)], err)
}

var statuses = [...]int{
	sandbox.Internal: http.StatusInternalServerError, sandbox.Invalid: http.StatusBadRequest,
	sandbox.NotFound: http.StatusNotFound, sandbox.Conflict: http.StatusConflict,
	sandbox.Unsupported: http.StatusNotImplemented, sandbox.Unavailable: http.StatusServiceUnavailable,
	sandbox.Exhausted: http.StatusTooManyRequests, sandbox.Denied: http.StatusForbidden,
	sandbox.Timeout: http.StatusGatewayTimeout,
}

func httpStatus(err error) int {
	switch {
	case errors.Is(err, errUnauthenticated):
		return http.StatusUnauthorized
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return http.StatusInsufficientStorage
	}
	return statuses[classOf(err)]
}

// httpErrorBody is the body of every plain HTTP failure.
type httpErrorBody struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// httpError is the one place where errors become HTTP answers.
func httpError(w http.ResponseWriter, err error) {
	status := httpStatus(err)
	writeJSON(w, status, httpErrorBody{status, err.Error()})
}

// writeJSON cannot report a failure to anybody: the connection is what failed.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// clientError is the inverse, for the client.
func clientError(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &sandbox.Error{Op: op, Err: err, Class: sandbox.ClassOf(err)}
	if e.Class == sandbox.Internal { // what failed on this side has its class
		e.Class = classOfCode(connect.CodeOf(err))
	}
	e.Retry = e.Class == sandbox.Unavailable
	return e
}

func classOfCode(code connect.Code) sandbox.Class {
	switch code {
	case connect.CodeAlreadyExists:
		return sandbox.Conflict
	case connect.CodeUnauthenticated:
		return sandbox.Denied
	}
	for class, c := range codes {
		if c == code {
			return sandbox.Class(class)
		}
	}
	return sandbox.Internal
}

// clientStatus is clientError for plain HTTP.
func clientStatus(op string, status int, message string) error {
	e := &sandbox.Error{Op: op, Reason: message}
	switch status {
	case http.StatusUnauthorized:
		e.Class = sandbox.Denied
	case http.StatusInsufficientStorage:
		e.Class = sandbox.Exhausted
	default:
		for class, s := range statuses {
			if s == status {
				e.Class = sandbox.Class(class)
			}
		}
	}
	return e
}
