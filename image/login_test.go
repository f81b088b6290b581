package image

import (
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"aether/sandbox"
)

// TestLoginsAreTheTenants: a private image is for those whose own login the registry
// takes, neither by the host's login nor by what the store has of others.
func TestLoginsAreTheTenants(t *testing.T) {
	var closed atomic.Bool // once the image is there
	host := startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if !closed.Load() || user+":"+password == "ann:secret" || user+":"+password == "host:secret" {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	})
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	check(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(`{"auths": {"`+host+`": {"username": "host", "password": "secret"}}}`), 0o600))
	ref, s := host+"/team/private:v1", openStore(t)
	push(t, ref, sampleImage(t))
	closed.Store(true)

	of := func(tenant string, logins map[string]sandbox.Login) error {
		_, err := s.Resolve(sandbox.WithRegistries(t.Context(), sandbox.Registries{Tenant: tenant, Logins: logins}), ref, nil)
		return err
	}
	wantSample(t, resolve(t, s, ref)) // by the host's
	for tenant, logins := range map[string]map[string]sandbox.Login{
		"none":  nil,
		"other": {"registry.example": {Username: "ann", Password: "secret"}},
		"wrong": {host: {Username: "ann", Password: "guess"}},
	} {
		if err := of(tenant, logins); sandbox.ClassOf(err) != sandbox.Denied {
			t.Errorf("%s: %v", tenant, err)
		}
	}
	anns := map[string]sandbox.Login{host: {Username: "ann", Password: "secret"}}
	check(t, of("ann", anns))
	check(t, of("ann", anns)) // from the store
	for _, tenant := range []string{"none", "wrong"} {
		if err := of(tenant, nil); sandbox.ClassOf(err) != sandbox.Denied {
			t.Errorf("%s has what is ann's: %v", tenant, err)
		}
	}
}
