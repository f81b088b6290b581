package pid1

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever the first host said, there is no second: a machine that is half set up
// is nobody's.
func TestConfiguredOnce(t *testing.T) {
	b := &unconfigured{channel: "stdio"}
	b.routes.HandleFunc("POST "+configurePath, control(maxConfiguration, b.configure))
	post := func(path, body string) (int, string) {
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	if code, _ := post("/init", "{}"); code != http.StatusNotFound {
		t.Errorf("the service answers %d before it is anybody's", code)
	}
	if code, text := post(configurePath, `{"secret":"AAAA"}`); code != http.StatusUnprocessableEntity || !strings.Contains(text, "secret") {
		t.Errorf("without a secret: %d, %s", code, text)
	}
	if code, text := post(configurePath, `{}`); code != http.StatusUnprocessableEntity || !strings.Contains(text, errTaken.Error()) {
		t.Errorf("the second time: %d, %s", code, text)
	}
}

func FuzzConfigure(f *testing.F) {
	f.Add([]byte(`{"secret":"AAAA","now":"2026-01-01T00:00:00Z","config":{"machine":{}}}`))
	f.Add([]byte(`{"config":{"machine":{"awaits":true}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		// None of these has a secret long enough to get as far as the kernel.
		if len(body) > 64 {
			body = body[:64]
		}
		if err := (&unconfigured{channel: "stdio"}).configure(body); err == nil {
			t.Errorf("%q configures a machine", body)
		}
	})
}
