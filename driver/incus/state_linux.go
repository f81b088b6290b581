package incus

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Codes of states of a container.
const (
	stateStopped = 102
	stateRunning = 103
	stateFrozen  = 110
	stateError   = 112
)

// state is what the daemon knows of a container now.
type state struct {
	Code   int   `json:"status_code"`
	Pid    int   `json:"pid"`
	Procs  int64 `json:"processes"`
	Memory struct {
		Usage int64 `json:"usage"`
		Peak  int64 `json:"usage_peak"`
	} `json:"memory"`
	CPU struct {
		Usage time.Duration `json:"usage"`
	} `json:"cpu"`
}

func instancePath(name string) string { return "/1.0/instances/" + url.PathEscape(name) }

func (c *client) state(ctx context.Context, name string) (s state, err error) {
	err = c.get(ctx, instancePath(name)+"/state", &s)
	return s, err
}

// change is an order that changes the state of a container.
type change struct {
	Action  string `json:"action"`
	Force   bool   `json:"force,omitempty"`
	Timeout int    `json:"timeout"`
}

// stop kills everything in a container, also what is paused.
func (c *client) stop(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPut, instancePath(name)+"/state", change{Action: "stop", Force: true, Timeout: -1})
}
