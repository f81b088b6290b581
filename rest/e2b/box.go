package e2b

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

const (
	// envdVersion is one whose features the guest service has.
	envdVersion = "0.6.4"
	// clientID is what older clients put into the hosts of sandboxes.
	clientID = "00000000"
)

// The keys of what a Spec's metadata says.
const (
	markTemplate = "e2b.template"
	markAlias    = "e2b.alias"
	markCode     = "e2b.code"    // it has code contexts
	markPrivate  = "e2b.private" // its ports ask for a token
	markHost     = "e2b.host"    // what its ports see as their host
	markBuild    = "e2b.build"   // the build that has made a template
	markEnv      = "e2b.env"     // what its commands have in their environment besides that of what it was made of
)

// sandboxBody is a sandbox as its maker is told of it.
type sandboxBody struct {
	SandboxID          string  `json:"sandboxID"`
	TemplateID         string  `json:"templateID"`
	Alias              string  `json:"alias,omitempty"`
	ClientID           string  `json:"clientID"`
	EnvdVersion        string  `json:"envdVersion"`
	EnvdAccessToken    string  `json:"envdAccessToken"`
	TrafficAccessToken *string `json:"trafficAccessToken,omitempty"`
	Domain             *string `json:"domain,omitempty"`
}

// listedBody is a sandbox in a list, and detailBody one that was asked for.
type listedBody struct {
	SandboxID    string            `json:"sandboxID"`
	TemplateID   string            `json:"templateID"`
	Alias        string            `json:"alias,omitempty"`
	ClientID     string            `json:"clientID"`
	EnvdVersion  string            `json:"envdVersion"`
	StartedAt    time.Time         `json:"startedAt"`
	EndAt        time.Time         `json:"endAt"`
	State        engine.State      `json:"state"`
	CPUCount     int               `json:"cpuCount"`
	MemoryMB     int64             `json:"memoryMB"`
	DiskSizeMB   int64             `json:"diskSizeMB"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	VolumeMounts []volumeMount     `json:"volumeMounts,omitempty"`
}

type detailBody struct {
	listedBody
	Domain              *string       `json:"domain,omitempty"`
	EnvdAccessToken     string        `json:"envdAccessToken"`
	AllowInternetAccess bool          `json:"allowInternetAccess"`
	Network             networkConfig `json:"network"`
	Lifecycle           lifecycle     `json:"lifecycle"`
}

type lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}

type volumeMount struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func (d *Dialect) made(r *http.Request, s engine.Sandbox) sandboxBody {
	body := sandboxBody{SandboxID: s.ID, TemplateID: templateOf(s), Alias: s.Spec.Metadata[markAlias], ClientID: clientID,
		EnvdVersion: envdVersion, EnvdAccessToken: d.tokens.access(s.ID), Domain: d.domainFor(r)}
	if isPrivate(s) {
		token := d.tokens.traffic(s.ID)
		body.TrafficAccessToken = &token
	}
	return body
}

func isPrivate(s engine.Sandbox) bool { return s.Spec.Metadata[markPrivate] != "" }

// domainFor is what a client makes the hosts of ports of. Names below localhost lead to
// the loopback.
func (d *Dialect) domainFor(r *http.Request) *string {
	host, port, err := net.SplitHostPort(r.Host)
	domain := d.domain
	if domain == "" {
		ip, wrong := netip.ParseAddr(host)
		if err != nil || host != "localhost" && (wrong != nil || !ip.IsLoopback()) {
			return nil
		}
		domain = "localhost"
	}
	if err == nil {
		domain = net.JoinHostPort(domain, port)
	}
	return &domain
}

// templateOf is what a sandbox was made of, for one that /v1 has made too.
func templateOf(s engine.Sandbox) string {
	name, _, _ := strings.Cut(s.Template, "@")
	return cmp.Or(s.Spec.Metadata[markTemplate], name, defaultTemplate)
}

func listed(s engine.Sandbox) listedBody {
	body := listedBody{SandboxID: s.ID, TemplateID: templateOf(s), Alias: s.Spec.Metadata[markAlias], ClientID: clientID, EnvdVersion: envdVersion,
		StartedAt: s.Created, EndAt: s.Expires, State: s.State, Metadata: s.Metadata}
	if body.EndAt.IsZero() { // it is paused, or has no end
		body.EndAt = s.Created.Add(forever)
	}
	body.CPUCount, body.MemoryMB, body.DiskSizeMB = sizes(s.Spec.Limits)
	for _, v := range s.Volumes {
		body.VolumeMounts = append(body.VolumeMounts, volumeMount{v.Name, v.Target})
	}
	return body
}

// forever is the time to live of what has no end, for clients that must be told one.
const forever = 100 * 365 * 24 * time.Hour

// sizes are what is enforced, and where nothing is, what the host has. A disk without a
// bound that is known is none.
func sizes(l sandbox.Limits) (cpus int, memoryMB, diskMB int64) {
	cpus = runtime.NumCPU()
	if l.CPUs > 0 {
		cpus = max(1, int(math.Ceil(l.CPUs)))
	}
	return cpus, cmp.Or(l.MemoryBytes, hostMemory()) >> 20, l.DiskBytes >> 20
}

func (d *Dialect) detailed(r *http.Request, s engine.Sandbox) detailBody {
	n := networkOf(s)
	body := detailBody{listedBody: listed(s), Domain: d.domainFor(r), EnvdAccessToken: d.tokens.access(s.ID), Network: n,
		AllowInternetAccess: slices.Contains(s.Spec.Network.Allow, sandbox.PublicList) || s.Spec.Network.Mode == sandbox.HostNetwork,
		Lifecycle:           lifecycle{OnTimeout: "kill", AutoResume: s.AutoResume}}
	if s.Then == engine.ThenPause || s.Then == engine.ThenPauseFiles {
		body.Lifecycle.OnTimeout = "pause"
	}
	return body
}

// living finds a sandbox that has not ended: clients know no others. Errors: NotFound.
func (d *Dialect) living(ctx context.Context, who engine.Caller, id string) (engine.Sandbox, error) {
	if !sandbox.IsName(id, maxID) {
		return engine.Sandbox{}, noSandbox(id)
	}
	s, err := d.engine.Get(ctx, who, id)
	if err == nil && s.State == engine.Ended {
		err = noSandbox(id)
	}
	return s, err
}

const maxID = 64

func noSandbox(id string) error {
	return &sandbox.Error{Class: sandbox.NotFound, Reason: "the sandbox " + strings.ToValidUTF8(id[:min(len(id), maxID)], "?") + " was not found"}
}

// of is living for the sandbox in the path of a request.
func (d *Dialect) of(v *rest.Visit) (engine.Sandbox, error) {
	return d.living(v.Context(), v.Who, v.PathValue("id"))
}
