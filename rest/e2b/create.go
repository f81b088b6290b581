package e2b

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

const (
	defaultTemplate = "base"
	codeTemplate    = "code-interpreter-v1"
	defaultTimeout  = 300 // seconds
	maxTimeout      = 30 * 24 * 3600
)

// newSandbox is what a sandbox is to be.
type newSandbox struct {
	TemplateID          string            `json:"templateID"`
	Timeout             *int64            `json:"timeout"`
	AutoPause           bool              `json:"autoPause"`
	AutoPauseMemory     *bool             `json:"autoPauseMemory"`
	AutoResume          *autoResume       `json:"autoResume"`
	AllowInternetAccess *bool             `json:"allow_internet_access"`
	Network             networkConfig     `json:"network"`
	Metadata            map[string]string `json:"metadata"`
	EnvVars             map[string]string `json:"envVars"`
	VolumeMounts        []volumeMount     `json:"volumeMounts"`
	MCP                 map[string]any    `json:"mcp"`
	IAM                 *struct{}         `json:"iam"`
}

type autoResume struct {
	Enabled bool `json:"enabled"`
}

func (d *Dialect) create(v *rest.Visit) error {
	var req newSandbox
	if err := v.Body(&req); err != nil {
		return err
	}
	asked, err := d.request(v.Context(), v.Who, req)
	if err != nil {
		return err
	}
	if asked.Key, err = v.IdempotencyKey(); err != nil {
		return err
	}
	leave, err := v.Creation()
	if err != nil {
		return err
	}
	defer leave()
	made, err := d.engine.Create(v.Context(), v.Who, asked)
	if err != nil {
		return err
	}
	v.About(made.ID)
	d.books.copy(asked.Snapshot, made.ID)
	return v.Answer(http.StatusCreated, d.made(v.Request, made))
}

// request is what the engine is asked for. Errors: Invalid; Unsupported; NotFound for the
// template.
func (d *Dialect) request(ctx context.Context, who engine.Caller, req newSandbox) (engine.CreateRequest, error) {
	switch {
	case req.MCP != nil:
		return engine.CreateRequest{}, unsupported("mcp", "there is no MCP gateway in sandboxes")
	case req.IAM != nil:
		return engine.CreateRequest{}, unsupported("iam", "there are no workload tokens")
	case len(req.Network.HTTPSPorts) > 0:
		return engine.CreateRequest{}, unsupported("network.httpsPorts", "ports of sandboxes are spoken to in plain HTTP")
	}
	timeout, err := seconds(req.Timeout)
	if err != nil {
		return engine.CreateRequest{}, err
	}
	asked := engine.CreateRequest{Metadata: req.Metadata, Timeout: timeout, Then: req.then(), AutoResume: req.AutoResume != nil && req.AutoResume.Enabled, Keep: req.AutoPause}
	if asked.Spec.Network, err = req.Network.policy(req.AllowInternetAccess); err != nil {
		return asked, err
	}
	for _, m := range req.VolumeMounts {
		asked.Volumes = append(asked.Volumes, engine.VolumeMount{Name: m.Name, Target: m.Path})
	}
	origin, err := d.origin(ctx, who, req.TemplateID)
	if err != nil {
		return asked, err
	}
	asked.Template, asked.Snapshot = origin.template, origin.snapshot
	asked.Spec.Metadata = req.marks(origin)
	switch {
	case len(req.EnvVars) == 0: // some clients send none as an empty object
	case origin.plain():
		asked.Spec.Command.Env = req.EnvVars
	default:
		err = markEnvironment(asked.Spec.Metadata, req.EnvVars)
	}
	return asked, err
}

func unsupported(field, reason string) error {
	return &sandbox.Error{Class: sandbox.Unsupported, Field: field, Reason: reason}
}

// then is what comes when the time is over.
func (r newSandbox) then() engine.Then {
	switch {
	case !r.AutoPause:
		return engine.ThenKill
	case r.AutoPauseMemory != nil && !*r.AutoPauseMemory:
		return engine.ThenPauseFiles
	}
	return engine.ThenPause
}

// marks are what the Spec's metadata says.
func (r newSandbox) marks(o origin) map[string]string {
	marks := map[string]string{markTemplate: o.id}
	if o.alias != "" {
		marks[markAlias] = o.alias
	}
	if o.code {
		marks[markCode] = "yes"
	}
	if o.env != "" {
		marks[markEnv] = o.env
	}
	if public := r.Network.AllowPublicTraffic; public != nil && !*public {
		marks[markPrivate] = "yes"
	}
	if r.Network.MaskRequestHost != "" {
		marks[markHost] = r.Network.MaskRequestHost
	}
	return marks
}

// seconds is a time to live as clients state it. Errors: Invalid.
func seconds(n *int64) (time.Duration, error) {
	if n == nil {
		return defaultTimeout * time.Second, nil
	}
	if *n < 1 || *n > maxTimeout {
		return 0, sandbox.Invalidf("timeout", "%d is not between 1 and %d seconds", *n, maxTimeout)
	}
	return time.Duration(*n) * time.Second, nil
}

// origin is what a sandbox is made of: a template of the engine's, a snapshot or, with
// neither, the image of the host.
type origin struct {
	id, alias          string
	template, snapshot string
	code               bool
	env                string // that of markEnv
}

func (o origin) plain() bool { return o.template == "" && o.snapshot == "" }

// origin finds what a client calls a template: a snapshot by its id, what is there from the
// beginning, a template, and the newest snapshot of a name. Errors: NotFound.
func (d *Dialect) origin(ctx context.Context, who engine.Caller, name string) (origin, error) {
	if name == "" {
		name = defaultTemplate
	}
	if s, err := d.engine.GetSnapshot(ctx, who, name); err == nil {
		return originOf(s), nil
	}
	t, err := d.template(ctx, who, name)
	if err == nil {
		return origin{id: t.Name, alias: t.Name, template: fmt.Sprintf("%s@%d", t.Name, t.Version), code: t.Recipe.Spec.Metadata[markCode] != ""}, nil
	}
	if isBuiltin(name) {
		return origin{id: name, alias: name, code: name == codeTemplate}, nil
	}
	if page, failed := d.engine.Snapshots(ctx, who, engine.SnapshotQuery{Name: name, Limit: 1}); failed == nil && len(page.Snapshots) > 0 {
		return originOf(page.Snapshots[0]), nil
	}
	return origin{}, &sandbox.Error{Class: sandbox.NotFound, Field: "templateID", Reason: "there is no template or snapshot of this name", Err: nil}
}

func originOf(s engine.Snapshot) origin {
	return origin{id: s.ID, alias: s.Name, snapshot: s.ID, code: s.Spec.Metadata[markCode] != "", env: s.Spec.Metadata[markEnv]}
}

// isBuiltin says whether a template is there from the beginning: it is the host's image.
func isBuiltin(name string) bool {
	return strings.EqualFold(name, defaultTemplate) || strings.EqualFold(name, codeTemplate)
}
