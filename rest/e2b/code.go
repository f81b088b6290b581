package e2b

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"aether/engine"
	"aether/guest"
	"aether/interpreter"
	"aether/rest"
	"aether/sandbox"
)

// connect attaches to the interpreter of a context or starts one. One that was there before
// and is gone is started again only if nobody made it with something in mind.
func (c *codeContext) connect(ctx context.Context, client *guest.Client, env map[string]string) (*interpreter.Context, error) {
	if handle := c.handle.Load(); handle != nil {
		running, err := interpreter.Attach(ctx, client, *handle, interpreter.Options{})
		switch {
		case err == nil && c.copied:
			if _, err = running.Reseed(ctx); err == nil && len(env) > 0 {
				_, err = setEnv(ctx, running, env, nil)
			}
			return running, err
		case err == nil || !c.standard || sandbox.ClassOf(err) != sandbox.NotFound:
			return running, err
		}
	}
	running, err := interpreter.Start(ctx, client, c.kind, interpreter.Options{WorkDir: c.CWD, Env: env})
	return running, c.lacking(err)
}

// lacking is the refusal of a sandbox whose image has no interpreter of the language, or none
// that can. Clients would take what these classes are otherwise for the end of the sandbox.
func (c *codeContext) lacking(err error) error {
	switch sandbox.ClassOf(err) {
	case sandbox.NotFound:
		return rest.Refusal(http.StatusNotImplemented, &sandbox.Error{Class: sandbox.Unsupported, Field: "language", Reason: "the image of the sandbox has no interpreter for " + c.Language,
			Remedy: "use a template with one", Err: err})
	case sandbox.Unavailable:
		return rest.Refusal(http.StatusNotImplemented, err)
	}
	return err
}

// isCode says whether a request is for the code contexts of a sandbox.
func isCode(s engine.Sandbox, at place) bool {
	return at.port == codePort && s.Spec.Metadata[markCode] != ""
}

// code answers at the port of code contexts.
func (d *Dialect) code(v *rest.Visit, s engine.Sandbox) error {
	id, verb, _ := strings.Cut(strings.TrimPrefix(v.URL.Path, "/contexts/"), "/")
	switch at := v.Method + " " + v.URL.Path; {
	case at == "GET /health":
		return v.Answer(http.StatusOK, "OK")
	case at == "POST /execute":
		return d.execute(v, s)
	case at == "GET /contexts":
		return d.listContexts(v, s)
	case at == "POST /contexts":
		return d.createContext(v, s)
	case strings.HasPrefix(v.URL.Path, "/contexts/") && v.Method == http.MethodDelete && verb == "":
		return d.endContext(v, s, id, false)
	case strings.HasPrefix(v.URL.Path, "/contexts/") && v.Method == http.MethodPost && verb == "restart":
		return d.endContext(v, s, id, true)
	}
	return rest.Refusal(http.StatusNotFound, &sandbox.Error{Class: sandbox.NotFound, Field: "path", Reason: "there is no such path"})
}

func (d *Dialect) listContexts(v *rest.Visit, s engine.Sandbox) error {
	k := d.books.of(s.ID)
	k.standard(interpreter.Python)
	k.mu.Lock()
	list := slices.SortedFunc(maps.Values(k.contexts), func(a, b *codeContext) int { return strings.Compare(a.ID, b.ID) })
	k.mu.Unlock()
	return v.Answer(http.StatusOK, list)
}

func (d *Dialect) createContext(v *rest.Visit, s engine.Sandbox) error {
	req := struct {
		Language string `json:"language"`
		CWD      string `json:"cwd"`
	}{}
	if err := v.Body(&req); err != nil {
		return err
	}
	kind, err := languageOf(req.Language)
	if err != nil {
		return err
	}
	switch {
	case req.CWD == "":
		req.CWD = codeDir
	case !path.IsAbs(req.CWD):
		return sandbox.Invalidf("cwd", "%.80q is not an absolute path", req.CWD)
	}
	k := d.books.of(s.ID)
	c, err := k.add(newContextID(), kind, req.CWD)
	if err != nil {
		return err
	}
	if err := c.take(v.Context()); err != nil {
		return err
	}
	defer c.give()
	if _, err := c.live(v.Context(), d.engine, v.Who, s); err != nil {
		k.remove(c.ID)
		return err
	}
	return v.Answer(http.StatusOK, c)
}

func newContextID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // which never fails
	return hex.EncodeToString(id)
}

func (k *book) remove(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.contexts, id)
}

// endContext ends an interpreter and forgets its context, or has it start anew.
func (d *Dialect) endContext(v *rest.Visit, s engine.Sandbox, id string, again bool) error {
	k := d.books.of(s.ID)
	c, err := k.find(id)
	if err != nil {
		return err
	}
	if running := c.busy.Load(); running != nil { // a call that runs on would be waited for
		_ = running.Interrupt(v.Context())
	}
	if err := c.take(v.Context()); err != nil {
		return err
	}
	defer c.give()
	if err := c.end(v.Context(), d.engine, v.Who, s); err != nil {
		return err
	}
	if !again {
		k.remove(id)
	} else if _, err := c.live(v.Context(), d.engine, v.Who, s); err != nil {
		return err
	}
	return v.Answer(http.StatusNoContent, nil)
}

// executeRequest is code to be run.
type executeRequest struct {
	Code      string            `json:"code"`
	ContextID string            `json:"context_id"`
	Language  string            `json:"language"`
	EnvVars   map[string]string `json:"env_vars"`
}

// execute runs code and answers with a line of JSON for everything that comes of it.
func (d *Dialect) execute(v *rest.Visit, s engine.Sandbox) error {
	var req executeRequest
	if err := v.Body(&req); err != nil {
		return err
	}
	c, err := d.contextFor(s, req)
	if err != nil {
		return err
	}
	if err := c.take(v.Context()); err != nil {
		return err
	}
	defer c.give()
	running, err := c.live(v.Context(), d.engine, v.Who, s)
	if err != nil {
		return err
	}
	restore, err := setEnv(v.Context(), running, req.EnvVars, stated(s.Spec))
	if err != nil {
		return err
	}
	defer restore()
	lines := &lineWriter{v: v, control: http.NewResponseController(v.Writer)}
	v.Writer.Header().Set("Content-Type", "application/x-ndjson")
	v.Writer.Header().Set("Cache-Control", "no-store")
	lines.begin()
	c.busy.Store(running)
	defer c.busy.Store(nil)
	result, err := running.Run(v.Context(), req.Code, interpreter.Handler{Stdout: &textWriter{lines: lines, kind: "stdout"}, Stderr: &textWriter{lines: lines, kind: "stderr"},
		Value: func(value interpreter.Value) { lines.value(value) }})
	if failed := failureOf(result, err); failed != nil {
		lines.write(struct {
			Type string `json:"type"`
			*interpreter.Error
		}{"error", failed})
	}
	lines.write(map[string]any{"type": "number_of_executions", "execution_count": result.Count})
	lines.write(map[string]any{"type": "end_of_execution"})
	return nil
}

// failureOf is how the code failed, or the interpreter.
func failureOf(result interpreter.Result, err error) *interpreter.Error {
	if result.Error != nil || err == nil {
		return result.Error
	}
	name := "ExecutionError"
	var ended *interpreter.Ended
	if errors.As(err, &ended) {
		name = "InterpreterEnded"
	}
	return &interpreter.Error{Name: name, Message: err.Error()}
}

func (d *Dialect) contextFor(s engine.Sandbox, req executeRequest) (*codeContext, error) {
	k := d.books.of(s.ID)
	if req.ContextID != "" {
		return k.find(req.ContextID)
	}
	kind, err := languageOf(req.Language)
	if err != nil {
		return nil, err
	}
	return k.standard(kind), nil
}

// envTime bounds the restoring of an environment, whose caller may be gone.
const envTime = 10 * time.Second

// setEnv changes the environment of an interpreter for one call.
func setEnv(ctx context.Context, c *interpreter.Context, env, before map[string]string) (restore func(), err error) {
	if len(env) == 0 {
		return func() {}, nil
	}
	back := map[string]*string{}
	set := map[string]*string{}
	for name, value := range env {
		if err := sandbox.ValidEnv(name, value); err != nil {
			return nil, err
		}
		set[name] = &value
		back[name] = nil
		if old, ok := before[name]; ok {
			back[name] = &old
		}
	}
	if _, err := c.Run(ctx, envCode(c.Language(), set), interpreter.Handler{}); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), envTime)
		defer cancel()
		_, _ = c.Run(ctx, envCode(c.Language(), back), interpreter.Handler{}) // an interpreter that has ended has none
	}, nil
}

// envCode is the code that sets variables, or unsets those that are nil.
func envCode(language interpreter.Language, env map[string]*string) string {
	var code strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		switch language {
		case interpreter.Python:
			// Strings of JSON are such of Python.
			if value == nil {
				code.WriteString("__import__('os').environ.pop(" + quoteJSON(name) + ", None);\n")
			} else {
				code.WriteString("__import__('os').environ[" + quoteJSON(name) + "] = " + quoteJSON(*value) + "\n")
			}
		case interpreter.Node, interpreter.TypeScript:
			if value == nil {
				code.WriteString("delete process.env[" + quoteJSON(name) + "];\n")
			} else {
				code.WriteString("process.env[" + quoteJSON(name) + "] = " + quoteJSON(*value) + ";\n")
			}
		case interpreter.Bash:
			if value == nil {
				code.WriteString("unset " + quoteShell(name) + "\n")
			} else {
				code.WriteString("export " + quoteShell(name+"="+*value) + "\n")
			}
		}
	}
	return code.String()
}

// quoteJSON writes a text as JSON has it, which is how Python and JavaScript have it too.
func quoteJSON(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(quoted)
}

func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// lineWriter sends values as lines of JSON, each at once. A reader that is gone is told by
// the end of the request.
type lineWriter struct {
	v       *rest.Visit
	control *http.ResponseController
}

// begin sends the header: clients count the time of the code from then on.
func (l *lineWriter) begin() {
	if l.control.SetWriteDeadline(time.Now().Add(l.v.Patience())) == nil {
		l.v.Writer.WriteHeader(http.StatusOK)
		_ = l.control.Flush()
	}
}

func (l *lineWriter) write(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		return
	}
	if l.control.SetWriteDeadline(time.Now().Add(l.v.Patience())) != nil {
		return
	}
	if _, err := l.v.Writer.Write(append(text, '\n')); err == nil {
		_ = l.control.Flush()
	}
}

func (l *lineWriter) value(value interpreter.Value) {
	l.write(struct {
		Type string `json:"type"`
		interpreter.Value
	}{"result", value})
}

// textWriter sends output as text. A letter that comes in two parts is sent whole.
type textWriter struct {
	lines *lineWriter
	kind  string
	held  []byte
}

// Write implements io.Writer.
func (t *textWriter) Write(b []byte) (int, error) {
	text := append(t.held, b...)
	whole := len(text)
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		if at := len(text) - cut; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	t.held = append([]byte(nil), text[whole:]...)
	if whole > 0 {
		t.lines.write(map[string]any{"type": t.kind, "text": string(text[:whole]), "timestamp": time.Now().UTC().Format(time.RFC3339Nano)})
	}
	return len(b), nil
}
