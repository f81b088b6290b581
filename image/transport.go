package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"aether/internal/bounded"
	"aether/sandbox"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// guarded sends nothing in the clear to another machine: neither credentials nor
// requests that a registry redirects.
var guarded http.RoundTripper = httpsOnly{boundedAnswers{registryTransport()}}

// registryTransport is the usual one, with less room for headers.
func registryTransport() http.RoundTripper {
	usual, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		return remote.DefaultTransport
	}
	usual = usual.Clone()
	usual.MaxResponseHeaderBytes = maxHeader
	return usual
}

// maxHeader bounds the headers of a registry's answer.
const maxHeader = 256 << 10

// boundedAnswers ends every answer of a registry that is no blob: those are bounded
// where they are unpacked, the rest only where it is kept and not where it is skipped.
type boundedAnswers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err != nil || strings.Contains(r.URL.Path, "/blobs/") && res.StatusCode < http.StatusBadRequest {
		return res, err
	}
	body := &bounded.Reader{From: res.Body, What: "the registry's answer", Max: maxDocument}
	res.Body = struct {
		io.Reader
		io.Closer
	}{body, res.Body}
	return res, nil
}

type httpsOnly struct{ next http.RoundTripper }

var errPlain = errors.New("plain HTTP is for registries on this machine only")

func (h httpsOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !isLoopback(r.URL.Hostname()) {
		return nil, errPlain
	}
	return h.next.RoundTrip(r)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// registryFailure says whether the reference, the credentials, the registry or
// the way to it is at fault.
func registryFailure(err error) error {
	var answer *transport.Error
	var typed *sandbox.Error
	switch {
	case errors.As(err, &typed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errPlain):
		return &sandbox.Error{Class: sandbox.Denied, Err: err, Reason: "the registry does not answer by HTTPS"}
	case errors.As(err, &answer):
		return answerFailure(answer)
	case isNetwork(err):
		return &sandbox.Error{Class: sandbox.Unavailable, Retry: true, Err: err,
			Reason: "the registry cannot be reached", Remedy: "check the name and the network, or use a local image"}
	}
	return invalidCause(err, "the registry's answer is not an image that can run here")
}

func answerFailure(answer *transport.Error) error {
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound:
		return notFound(answer, "check the name and tag; a path begins with / or ./", "the registry has no such image")
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return &sandbox.Error{Class: sandbox.Denied, Err: answer,
			Reason: "the registry refuses the credentials, or hides that there is no such image",
			Remedy: "check the name, or log in with docker login"}
	case code == http.StatusTooManyRequests || code >= 500:
		return &sandbox.Error{Class: sandbox.Unavailable, Retry: true, Err: answer, Reason: "the registry cannot serve it now"}
	}
	return invalidCause(answer, "the registry refuses the reference")
}

// isNetwork tells a broken or missing connection from bad content.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF)
}

// sourceFailure classifies a failure to read a blob that has begun.
func sourceFailure(err error) error {
	if isNetwork(err) {
		return registryFailure(err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return invalidCause(fmt.Errorf("read: %w", err), "a blob is broken")
}
