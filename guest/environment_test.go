//go:build linux

package guest

import (
	"encoding/base64"
	"maps"
	"net/http"
	"testing"

	"aether/sandbox"
)

// TestEnvOfARequest: what a request brings is over what the service has, which stays as it is.
func TestEnvOfARequest(t *testing.T) {
	service := map[string]string{"A": "1", "B": "1"}
	h := http.Header{}
	if err := SetEnv(h, map[string]string{"B": "2", "C": "ü"}); err != nil {
		t.Fatal(err)
	}
	got, err := envOf(h, service)
	if err != nil || !maps.Equal(got, map[string]string{"A": "1", "B": "2", "C": "ü"}) || service["B"] != "1" {
		t.Errorf("%v, %v, %v", got, service, err)
	}
	if err := SetEnv(h, nil); err != nil || len(h) > 0 {
		t.Errorf("%v, %v", h, err)
	}
	for _, text := range []string{"[1]", "{", `{"A=B": "x"}`, `{"A": "\u0000"}`} {
		h.Set(envHeader, base64.StdEncoding.EncodeToString([]byte(text)))
		if _, err := envOf(h, service); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", text, err)
		}
	}
	h.Set(envHeader, "not base64!")
	if _, err := envOf(h, service); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Error(err)
	}
}
