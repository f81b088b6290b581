package image

import (
	"maps"
	"path"
	"strings"

	"aether/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	maxStrings  = 1024
	maxString   = 32 << 10
)

// Config is what an image says about the commands that run in it.
type Config struct {
	Env map[string]string `json:"env,omitempty"`
	// WorkDir is absolute and clean.
	WorkDir string `json:"workdir"`
	// User is a name or number of the image, maybe with ":group"; empty is root.
	User       string   `json:"user,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
}

func plainConfig() Config {
	return Config{Env: map[string]string{"PATH": defaultPath}, WorkDir: "/"}
}

// clone keeps callers from changing what the store remembers.
func (c Config) clone() Config {
	c.Env = maps.Clone(c.Env)
	return c
}

// configOf takes over what can be used and refuses what no honest image has.
func configOf(from v1.Config) (Config, error) {
	c := plainConfig()
	c.WorkDir = path.Clean("/" + from.WorkingDir)
	c.User, c.Entrypoint, c.Cmd = from.User, from.Entrypoint, from.Cmd
	for field, list := range map[string][]string{"Env": from.Env, "Entrypoint": from.Entrypoint, "Cmd": from.Cmd, "User": {from.User}, "WorkingDir": {from.WorkingDir}} {
		if err := checkStrings(field, list); err != nil {
			return Config{}, err
		}
	}
	for _, pair := range from.Env {
		name, value, _ := strings.Cut(pair, "=")
		if err := sandbox.ValidEnv(name, value); err != nil {
			return Config{}, invalidCause(err, "its configuration has a bad variable")
		}
		c.Env[name] = value
	}
	return c, nil
}

func checkStrings(field string, list []string) error {
	if len(list) > maxStrings {
		return invalid("its configuration has %d strings in %s, more than %d", len(list), field, maxStrings)
	}
	for _, s := range list {
		if strings.ContainsRune(s, 0) || len(s) > maxString {
			return invalid("its configuration has a string in %s with a zero byte or over %d bytes", field, maxString)
		}
	}
	return nil
}
