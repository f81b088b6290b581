package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"testing"

	"aether/engine"
	"aether/sandbox"
)

// FuzzBody: whatever callers send is taken or refused as invalid with a field, and what
// is taken means the same when it is sent again.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"spec":{"image":"host","limits":{"cpus":0.5}},"timeout_ns":5,"then":"pause"}`, `{"metadata":{"a":"b"}}`, `{"timeout_ns":1e99}`, `{"spec":{"isolation":"x"}}`, `{"recipe":{"name":"a","code":{"language":"python"}},"tags":["b"],"ahead":2}`, "[[[["} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, into := range []any{new(engine.CreateRequest), new(engine.ForkRequest), new(engine.SnapshotRequest), new(engine.RollbackRequest), new(MarkRequest), new(PauseRequest), new(Change), new(ExecRequest), new(engine.TemplateRequest), new(engine.PromoteRequest), new(engine.TemplateChange)} {
			if err := decode(text, into); err != nil {
				if f := failureOf(err, false); f.Class != "invalid" || f.Field == "" {
					t.Fatalf("%q: %+v", text, f)
				}
				continue
			}
			sent, err := json.Marshal(into)
			if err != nil {
				t.Fatal(err)
			}
			again := reflect.New(reflect.TypeOf(into).Elem()).Interface()
			if err := decode(sent, again); err != nil {
				t.Fatalf("%s of %q: %v", sent, text, err)
			}
		}
	})
}

// FuzzQuery: filters that are taken mean the same when they are written out.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "state=running&state=ended&limit=5", "metadata=a%3Db=c&after=x", "limit=0", "a;b", "tenant=%zz", "metadata=a=b&metadata=a=c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if _, err := parseTemplateQuery(raw); err != nil && failureOf(err, false).Class != "invalid" {
			t.Fatalf("%q: %v", raw, err)
		}
		q, err := parseQuery(raw)
		if err != nil {
			if f := failureOf(err, false); f.Class != "invalid" {
				t.Fatalf("%q: %+v", raw, f)
			}
			return
		}
		if again, err := parseQuery(formatQuery(q)); err != nil || !reflect.DeepEqual(again, q) {
			t.Fatalf("%q is %+v, then %+v, %v", raw, q, again, err)
		}
	})
}

// FuzzSnapshotQuery: the same for snapshots.
func FuzzSnapshotQuery(f *testing.F) {
	for _, seed := range []string{"", "sandbox=a&name=b&limit=5", "metadata=a%3Db=c&after=x&tenant=t", "limit=0", "state=running", "name=a&name=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseSnapshotQuery(raw)
		if err != nil {
			if f := failureOf(err, false); f.Class != "invalid" {
				t.Fatalf("%q: %+v", raw, f)
			}
			return
		}
		if again, err := parseSnapshotQuery(formatSnapshotQuery(q)); err != nil || !reflect.DeepEqual(again, q) {
			t.Fatalf("%q is %+v, then %+v, %v", raw, q, again, err)
		}
	})
}

// FuzzEvents: whatever a daemon sends as events ends, in an error.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"", ": x\n\n", "id: 1\nevent: created\ndata: {\"number\":1}\n\n", "event: error\ndata: {\"class\":\"denied\"}\n\n", "data\n\n", "data: [\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		seen := 0
		if err := readEvents(bytes.NewReader(text), func(engine.Event) bool { seen++; return true }); err == nil {
			t.Fatalf("%q has no end", text)
		}
		if seen > bytes.Count(text, []byte("\n\n"))+bytes.Count(text, []byte("\r\n")) {
			t.Fatalf("%d events of %q", seen, text)
		}
	})
}

// FuzzRefusal: whatever a daemon refuses with is an error of some class.
func FuzzRefusal(f *testing.F) {
	f.Add(429, []byte(`{"class":"exhausted","reason":"x","retry":true,"retry_after_ms":9223372036854775807}`))
	f.Add(401, []byte(""))
	f.Add(500, []byte("<html>"))
	f.Add(200, []byte(`{"class":"nonsense","retry_after_ms":-1}`))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		err := readRefusal("test", &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(text))})
		e, ok := err.(*sandbox.Error)
		if !ok || e.After < 0 || e.Error() == "" {
			t.Fatalf("%d %q: %v", status, text, err)
		}
	})
}
