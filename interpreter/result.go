package interpreter

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Result is what one call gave. Its JSON names are those that clients of code
// interpreters know.
type Result struct {
	// Values are what was displayed, in order, and the last expression's value.
	Values []Value `json:"results"`
	// Logs are what was written to standard output and error.
	Logs Logs `json:"logs"`
	// Error is how the code failed; nil if it did not.
	Error *Error `json:"error,omitempty"`
	// Status is the exit status of bash's last command; zero elsewhere.
	Status int `json:"status,omitempty"`
	// Count is the call's number in its context, from one on.
	Count int `json:"execution_count,omitempty"`
	// Before is what was written after the last call and before this one, by
	// what an earlier call left running.
	Before Logs `json:"before,omitzero"`
	// Dropped is what did not fit into the limits.
	Dropped Dropped `json:"dropped,omitzero"`
}

// Logs are output, byte for byte; it need not be text.
type Logs struct {
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// Dropped counts what a Result left out.
type Dropped struct {
	StdoutBytes int64 `json:"stdout_bytes,omitempty"`
	StderrBytes int64 `json:"stderr_bytes,omitempty"`
	Values      int   `json:"values,omitempty"`
}

// Error is a failure of the code that was run.
type Error struct {
	Name      string `json:"name"`
	Message   string `json:"value"`
	Traceback string `json:"traceback,omitempty"`
}

// Main is the value of the last expression, or nil if it had none.
func (r *Result) Main() *Value {
	for i := range r.Values {
		if r.Values[i].Main {
			return &r.Values[i]
		}
	}
	return nil
}

// Value is one value in the forms that it offers. An absent form is empty.
type Value struct {
	// Main says that it is the last expression's; others were displayed.
	Main bool `json:"is_main_result"`

	Text       string          `json:"text,omitempty"`
	HTML       string          `json:"html,omitempty"`
	Markdown   string          `json:"markdown,omitempty"`
	SVG        string          `json:"svg,omitempty"`
	PNG        []byte          `json:"png,omitempty"`
	JPEG       []byte          `json:"jpeg,omitempty"`
	PDF        []byte          `json:"pdf,omitempty"`
	LaTeX      string          `json:"latex,omitempty"`
	JSON       json.RawMessage `json:"json,omitempty"`
	JavaScript string          `json:"javascript,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Chart      json.RawMessage `json:"chart,omitempty"`
	// Extra are the forms of other types, by their type.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
	// Truncated says that Text was cut, or that a form was not what its type says
	// and is left out.
	Truncated bool `json:"truncated,omitempty"`
}

// maxForms bounds the forms of one value.
const maxForms = 32

// valueBody is a value as interpreters send it.
type valueBody struct {
	Main bool                       `json:"main"`
	Cut  bool                       `json:"cut"`
	Data map[string]json.RawMessage `json:"data"`
}

func parseValue(body []byte) (Value, bool) {
	var sent valueBody
	if json.Unmarshal(body, &sent) != nil || len(sent.Data) > maxForms {
		return Value{}, false
	}
	v := Value{Main: sent.Main, Truncated: sent.Cut}
	for mime, form := range sent.Data {
		if !v.set(mime, form) {
			v.Truncated = true
		}
	}
	return v, true
}

// set takes one form, and says whether it is what its type says.
func (v *Value) set(mime string, form json.RawMessage) bool {
	texts := map[string]*string{"text/plain": &v.Text, "text/html": &v.HTML, "text/markdown": &v.Markdown, "image/svg+xml": &v.SVG,
		"text/latex": &v.LaTeX, "application/javascript": &v.JavaScript}
	binaries := map[string]*[]byte{"image/png": &v.PNG, "image/jpeg": &v.JPEG, "application/pdf": &v.PDF}
	values := map[string]*json.RawMessage{"application/json": &v.JSON, "e2b/data": &v.Data, "e2b/chart": &v.Chart}
	if to, ok := texts[mime]; ok {
		return json.Unmarshal(form, to) == nil
	}
	if to, ok := binaries[mime]; ok {
		return decodeBinary(form, to)
	}
	if to, ok := values[mime]; ok {
		*to = form
		return true
	}
	if v.Extra == nil {
		v.Extra = map[string]json.RawMessage{}
	}
	v.Extra[mime] = form
	return true
}

// decodeBinary reads base64, with the line breaks that some writers add.
func decodeBinary(form json.RawMessage, to *[]byte) bool {
	var text string
	if json.Unmarshal(form, &text) != nil {
		return false
	}
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	*to = data
	return err == nil
}

// endBody is the end of a call as interpreters send it.
type endBody struct {
	Status int `json:"status"`
	Count  int `json:"count"`
}
