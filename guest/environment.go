package guest

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"

	"aether/sandbox"
)

// envHeader has variables for what a request starts, besides those of the service: a
// sandbox that goes on from another's memory may be given some of its own.
const envHeader = "Aether-Env"

// SetEnv has a request to a guest service bring variables for what it starts, instead of
// any that it brings already.
func SetEnv(h http.Header, env map[string]string) error {
	h.Del(envHeader)
	if len(env) == 0 {
		return nil
	}
	text, err := json.Marshal(env)
	if err == nil {
		h.Set(envHeader, base64.StdEncoding.EncodeToString(text))
	}
	return err
}

// envOf is the environment of a service with what a request brings. Errors: Invalid.
func envOf(h http.Header, service map[string]string) (map[string]string, error) {
	value := h.Get(envHeader)
	if value == "" {
		return service, nil
	}
	var own map[string]string
	text, err := base64.StdEncoding.DecodeString(value)
	if err == nil {
		err = json.Unmarshal(text, &own)
	}
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.Invalid, Field: envHeader, Reason: "it is not an object of JSON in base64", Err: err}
	}
	env := map[string]string{}
	maps.Copy(env, service)
	for name, value := range own {
		if err := sandbox.ValidEnv(name, value); err != nil {
			return nil, err
		}
		env[name] = value
	}
	return env, nil
}
