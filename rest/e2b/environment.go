package e2b

import (
	"encoding/json"
	"maps"

	"aether/sandbox"
)

// maxEnv bounds the variables that are given to a sandbox of a template or snapshot: they
// go with every request to its guest service.
const maxEnv = 24 << 10

// markEnvironment notes variables in a Spec's metadata, over those that are there. What is
// made of a template or snapshot goes on with the guest service of that, whose environment
// is no part of the Spec. Errors: Invalid.
func markEnvironment(marks, env map[string]string) error {
	all := map[string]string{}
	maps.Copy(all, decodeEnv(marks[markEnv]))
	for name, value := range env {
		if err := sandbox.ValidEnv(name, value); err != nil {
			return err
		}
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if len(text) > maxEnv {
		return sandbox.Invalidf("envVars", "they have %d bytes, and with a template or snapshot %d are allowed", len(text), maxEnv)
	}
	marks[markEnv] = string(text)
	return nil
}

// envOf are the variables that were noted.
func envOf(spec sandbox.Spec) map[string]string { return decodeEnv(spec.Metadata[markEnv]) }

func decodeEnv(text string) (env map[string]string) {
	if text == "" || json.Unmarshal([]byte(text), &env) != nil { // which markEnvironment alone writes
		return nil
	}
	return env
}

// stated is the environment that a sandbox was given, in both ways.
func stated(spec sandbox.Spec) map[string]string {
	env := map[string]string{}
	maps.Copy(env, spec.Command.Env)
	maps.Copy(env, envOf(spec))
	return env
}
