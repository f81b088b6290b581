package guest

import (
	"path"

	"aether/sandbox"
)

// DefaultKeep is how much output of each process is kept unless Options say
// otherwise.
const DefaultKeep = 256 << 10

// Options are how a service treats its callers. The zero value works.
type Options struct {
	// DefaultUser runs what names no user; empty means root.
	DefaultUser string
	// WorkDir is where commands start that name no directory; empty means the
	// user's home.
	WorkDir string
	// Env is given to every command. It is kept, and must not be changed any more.
	Env map[string]string
	// AccessToken, if set, must be shown by every caller.
	AccessToken string
	// Limits are shown as the sandbox's size; they are enforced elsewhere.
	Limits sandbox.Limits
	// KeepOutput bounds the output of each process that nobody has taken yet.
	KeepOutput int
	// Logger is told what fails in the background. Nil means package log.
	Logger Logger
}

// Validate checks everything that a sandbox is not needed for.
func (o Options) Validate() error {
	for name, value := range o.Env {
		if err := sandbox.ValidEnv(name, value); err != nil {
			return err
		}
	}
	if o.WorkDir != "" && !path.IsAbs(o.WorkDir) {
		return sandbox.Invalidf("workdir", "%q is not an absolute path", clip(o.WorkDir))
	}
	if o.KeepOutput < 0 {
		return sandbox.Invalidf("keep_output", "%d is negative", o.KeepOutput)
	}
	return nil
}

// settings are the options that a caller may change while the service runs.
type settings struct {
	user, workDir, token string
	env                  map[string]string
}

func (o Options) settings() settings {
	s := settings{user: o.DefaultUser, workDir: o.WorkDir, token: o.AccessToken, env: o.Env}
	if s.user == "" {
		s.user = "root"
	}
	return s
}
