package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"aether/internal/bounded"
	"aether/sandbox"
)

// body reads the JSON of a request into a value. An absent body leaves it as it is.
// Errors: Invalid, with the field at fault; Timeout if it takes too long to come.
func (s *Server) body(w http.ResponseWriter, r *request, into any) error {
	return s.bodyOf(w, r, into, s.opts.Limits.BodyBytes)
}

// bodyOf is body with a bound of its own.
func (s *Server) bodyOf(w http.ResponseWriter, r *request, into any, most int64) error {
	text, err := s.receive(w, r, most)
	if err != nil || len(text) == 0 {
		return err
	}
	if err := declaredJSON(r); err != nil {
		return err
	}
	return decode(text, into)
}

func declaredJSON(r *request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return &statusError{&sandbox.Error{Class: sandbox.Invalid, Field: "Content-Type", Reason: "the body is not declared as application/json"}, http.StatusUnsupportedMediaType}
	}
	return nil
}

// receive reads the whole body, within its bounds of bytes and time.
func (s *Server) receive(w http.ResponseWriter, r *request, most int64) ([]byte, error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(s.opts.Limits.Receive)); err != nil {
		return nil, err
	}
	text, err := bounded.ReadAll(r.Body, "the body", most)
	if long := (*bounded.TooLong)(nil); errors.As(err, &long) {
		return nil, &statusError{&sandbox.Error{Class: sandbox.Invalid, Field: "body", Err: err}, http.StatusRequestEntityTooLarge}
	}
	if err != nil {
		return nil, &statusError{&sandbox.Error{Class: sandbox.Timeout, Field: "body", Reason: "it did not come whole", Err: err}, http.StatusRequestTimeout}
	}
	// The server reads on, to notice a caller that goes away.
	return text, control.SetReadDeadline(time.Time{})
}

// decode reads one value and takes nothing that it does not know.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return malformed(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return sandbox.Invalidf("body", "something follows the JSON value")
	}
	return nil
}

func malformed(err error) error {
	field := "body"
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		field = wrong.Field
	}
	var ours *sandbox.Error
	if errors.As(err, &ours) && ours.Field != "" {
		return ours
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		return sandbox.Invalidf(cmp.Or(strings.Trim(name, `"`), field), "there is no such field")
	}
	return sandbox.Invalidf(field, "it is no such JSON: %.200s", text)
}
