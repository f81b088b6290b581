package cli

import (
	"net/http"
	"sync"

	"aether/engine"
	"aether/mcp"
	"aether/rest"
	"aether/tool"
)

// agents is what the daemon answers at /mcp.
type agents struct {
	daemon  *daemon
	state   *tool.State
	handler func() (*mcp.Handler, error)
}

func newAgents(d *daemon) *agents {
	return &agents{d, tool.NewState(), sync.OnceValues(func() (*mcp.Handler, error) {
		// What goes wrong between the library and a caller is the caller's: it is not logged,
		// since callers could have any number of lines written.
		return mcp.NewHandler(mcp.Options{Version: readBuild().Version})
	})}
}

// ServeMCP implements rest.Agents. A session is as long as a message: what lasts is the
// engine's, and the state that all of them share.
func (a *agents) ServeMCP(w http.ResponseWriter, r *http.Request, who engine.Caller, e rest.Engine) {
	handler, err := a.handler()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	audit := func(c tool.Call) {
		a.daemon.engine.Record(who, r.RemoteAddr, "mcp."+c.Tool, c.Sandbox, c.Began, c.Err)
	}
	session, err := tool.New(tool.Options{Backend: tool.OfEngine(e, who, toolSystems(a.daemon.engine.Drivers())), State: a.state, Profile: mcp.ProfileOf(r), Idle: idleTime,
		Link: a.daemon.dialect.FileLink(r), Reveal: who.Operator, Audit: audit, Logger: a.daemon.log})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	handler.Serve(w, r, session)
	if err := session.Close(r.Context()); err != nil {
		a.daemon.log.Error("a session of an agent could not be closed", "err", err)
	}
}
