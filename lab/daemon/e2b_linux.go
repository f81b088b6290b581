package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"aether/engine"
	"aether/guest"
	"aether/interpreter"
	"aether/lab"
	"aether/rest"
	"aether/sandbox"
)

// e2bCommand is how E2B's clients run `true`.
var e2bCommand = []string{"/bin/bash", "-l", "-c", "true"}

// e2bWire asks a daemon as E2B's clients do, by the same requests.
type e2bWire struct {
	*server
	http *http.Client
}

// e2bBox is a sandbox by that wire, which carries requests to a port of it.
type e2bBox struct {
	e2bWire
	SandboxID, EnvdAccessToken string
	port                       int
}

// e2bNetwork is that of E2B's sandboxes.
var e2bNetwork = sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{sandbox.PublicList}}

// e2bRows measures whole lives by both doors, and by the official client. The sandboxes have
// the same network.
func (b *bench) e2bRows(ctx context.Context) (_ []lab.Row, err error) {
	wire := e2bWire{b.server, &http.Client{Transport: &http.Transport{}}}
	defer wire.http.CloseIdleConnections()
	node, undo := b.openNode(ctx)
	defer func() { err = errors.Join(err, undo()) }()
	v1 := overDoor(rowTCP, b.server.tcp)
	v1.create = func(ctx context.Context, req engine.CreateRequest) (string, error) {
		req.Spec.Network = e2bNetwork
		made, err := b.server.tcp.Create(ctx, req)
		return made.ID, err
	}
	v1.exec = func(ctx context.Context, id string) error {
		result, err := b.server.tcp.Exec(ctx, id, rest.ExecRequest{Command: e2bCommand})
		if err == nil && result.ExitCode != 0 {
			err = fmt.Errorf("the command ended with %d", result.ExitCode)
		}
		return err
	}
	return b.rounds.Rows(ctx, []lab.Contender{v1.lives(), wire.lives(), node})
}

func (w e2bWire) lives() lab.Contender {
	return lab.Contender{Name: rowE2BWire, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		box, err := w.create(ctx, "base")
		if err != nil {
			return lab.Sample{}, err
		}
		watch.Lap("create")
		err = box.run(ctx)
		watch.Lap("command")
		err = errors.Join(err, w.ask(ctx, http.MethodDelete, "/sandboxes/"+box.SandboxID, nil, nil))
		watch.Lap("end")
		return watch.Done(), err
	}}
}

func (w e2bWire) create(ctx context.Context, template string) (*e2bBox, error) {
	box := &e2bBox{e2bWire: w, port: 49983}
	return box, w.ask(ctx, http.MethodPost, "/v2/sandboxes", map[string]any{"templateID": template, "timeout": 300}, box)
}

// ask sends a request of the control plane.
func (w e2bWire) ask(ctx context.Context, method, path string, body, gives any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.address+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("X-API-Key", w.key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := w.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, said)
	}
	if err == nil && gives != nil {
		err = json.Unmarshal(said, gives)
	}
	return err
}

// RoundTrip implements http.RoundTripper.
func (b *e2bBox) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", b.address
	r.Header.Set("E2b-Sandbox-Id", b.SandboxID)
	r.Header.Set("E2b-Sandbox-Port", strconv.Itoa(b.port))
	r.Header.Set("X-Access-Token", b.EnvdAccessToken)
	return b.http.Transport.RoundTrip(r)
}

// run has the guest service run the command.
func (b *e2bBox) run(ctx context.Context) error {
	running, err := guest.NewClientOver(b, guest.ClientOptions{User: "user"}).Start(ctx, guest.Cmd{Path: e2bCommand[0], Args: e2bCommand[1:]})
	if err != nil {
		return err
	}
	status, err := running.Wait()
	if err == nil && status.Code != 0 {
		err = fmt.Errorf("the command ended with %d", status.Code)
	}
	return err
}

// sum is what both ways have a code context work out.
const (
	sum     = "1 + 1"
	sumSays = "2"
)

// codeRows measures a sum in a context of Python that lives, by the Go client and by E2B's wire.
func (b *bench) codeRows(ctx context.Context) (_ []lab.Row, err error) {
	wire := e2bWire{b.server, &http.Client{Transport: &http.Transport{}}}
	defer wire.http.CloseIdleConnections()
	box, err := wire.create(ctx, "code-interpreter-v1")
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, wire.ask(context.Background(), http.MethodDelete, "/sandboxes/"+box.SandboxID, nil, nil))
	}()
	box.port = 49999
	own, undo, err := b.ownContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, undo()) }()
	return b.rounds.Rows(ctx, []lab.Contender{taking(rowTCP, own), taking(rowE2BWire, box.sum)})
}

func taking(name string, do func(context.Context) error) lab.Contender {
	return lab.Contender{Name: name, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		err := do(ctx)
		watch.First("code")
		return watch.Sample, err
	}}
}

// ownContext is one by the Go client, which undo ends with its sandbox.
func (b *bench) ownContext(ctx context.Context) (run func(context.Context) error, undo func() error, err error) {
	made, err := b.server.tcp.Create(ctx, engine.CreateRequest{})
	if err != nil {
		return nil, nil, err
	}
	end := func() error { return b.server.tcp.Destroy(context.Background(), made.ID) }
	client, release, err := b.server.tcp.Guest(ctx, made.ID)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	c, err := interpreter.Start(ctx, client, interpreter.Python, interpreter.Options{})
	if err != nil {
		release()
		return nil, nil, errors.Join(err, end())
	}
	run = func(ctx context.Context) error {
		result, err := c.Run(ctx, sum, interpreter.Handler{})
		if err == nil && (len(result.Values) != 1 || result.Values[0].Text != sumSays) {
			err = fmt.Errorf("%s is %+v", sum, result)
		}
		return err
	}
	return run, func() error { c.Detach(); release(); return end() }, nil
}

// sum runs code as E2B's client for that does.
func (b *e2bBox) sum(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox/execute", bytes.NewReader([]byte(`{"code": "`+sum+`"}`)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := b.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && (answer.StatusCode != http.StatusOK || !bytes.Contains(said, []byte(`"text":"`+sumSays+`"`))) {
		err = fmt.Errorf("%s: %s", answer.Status, said)
	}
	return err
}
