package rest_test

import (
	"bytes"
	"testing"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// TestConsole: it comes as text or as bytes, whole letters only, and not to others.
func TestConsole(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.client(t, d.http, annsKey)
	made, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Console(t.Context(), made.ID)
	wantClass(t, err, sandbox.Unsupported)
	long := bytes.Repeat([]byte("é"), sandbox.MaxConsole/2+1)
	for _, with := range []struct {
		console []byte
		want    rest.Output
	}{
		{[]byte{}, rest.Output{}},
		{[]byte("[    0.0] Linux\x1b[2J\r\n"), rest.Output{Text: "[    0.0] Linux\x1b[2J\r\n"}},
		{[]byte("\xff\x00"), rest.Output{Bytes: []byte("\xff\x00")}},
		{long[1:], rest.Output{Text: string(long[2:]), Truncated: true}},
	} {
		d.engine.console = with.console
		got, err := c.Console(t.Context(), made.ID)
		if err != nil || got.Text != with.want.Text || !bytes.Equal(got.Bytes, with.want.Bytes) || got.Truncated != with.want.Truncated {
			t.Errorf("%.20q: %.40q, %.40q, %v, %v", with.console, got.Text, got.Bytes, got.Truncated, err)
		}
	}
	_, err = d.client(t, d.http, bobsKey).Console(t.Context(), made.ID)
	wantClass(t, err, sandbox.NotFound)
}
