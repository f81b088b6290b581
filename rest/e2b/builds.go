package e2b

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

const (
	// maxBuilds is how many builds of a tenant are remembered, maxLog how many lines of each,
	// and maxLogBytes of how many bytes.
	maxBuilds   = 100
	maxLog      = 10_000
	maxLogBytes = 256 << 10
	// logPage is how many lines are told at once.
	logPage = 1000
	// defaultTag is that of a build which names none, and is meant by a name alone.
	defaultTag = "default"
)

type buildStatus string

const (
	waiting  buildStatus = "waiting"
	building buildStatus = "building"
	ready    buildStatus = "ready"
	failed   buildStatus = "error"
)

// buildEntry is a line of the log of a build.
type buildEntry struct {
	Timestamp time.Time `json:"timestamp"`
	Message   string    `json:"message"`
	Level     string    `json:"level"`
	Step      string    `json:"step,omitempty"`
}

type statusReason struct {
	Message    string       `json:"message"`
	Step       string       `json:"step,omitempty"`
	LogEntries []buildEntry `json:"logEntries"`
}

// build is the making of a template, from when it was announced.
type build struct {
	id, tenant, name string
	tags             []string
	limits           sandbox.Limits
	created          time.Time

	mu       sync.Mutex
	status   buildStatus
	log      []buildEntry
	size     int // of the log
	reason   *statusReason
	finished time.Time
}

// builds are those of this daemon, of which the oldest are forgotten.
type builds struct {
	life context.Context
	end  context.CancelFunc
	all  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	byID   map[string]*build
	list   []*build // oldest first
}

func newBuilds() *builds {
	b := &builds{byID: map[string]*build{}}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// close gives up those that run and waits for them. None runs afterwards, also for a request
// that was cut and goes on.
func (b *builds) close() {
	b.end()
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.all.Wait()
}

// start has a build run. Errors: Conflict for one that has, and once closed.
func (b *builds) start(one *build, run func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "e2b", Reason: "the daemon is ending"}
	}
	if err := one.begin(); err != nil {
		return err
	}
	b.all.Go(run)
	return nil
}

// add remembers a build. One that runs is not forgotten. Errors: Exhausted.
func (b *builds) add(one *build) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, oldest := 0, -1
	for i, old := range b.list {
		if old.tenant != one.tenant {
			continue
		}
		if own++; oldest < 0 && old.now() != building {
			oldest = i
		}
	}
	switch {
	case own >= maxBuilds && oldest < 0:
		return &sandbox.Error{Class: sandbox.Exhausted, Reason: "too many templates are being built", Retry: true}
	case own >= maxBuilds:
		delete(b.byID, b.list[oldest].id)
		b.list = slices.Delete(b.list, oldest, oldest+1)
	}
	b.byID[one.id], b.list = one, append(b.list, one)
	return nil
}

func (b *builds) find(who engine.Caller, template, id string) (*build, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.byID[id]
	return one, one != nil && one.tenant == who.Tenant && one.name == template
}

func (b *build) now() buildStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// begin has a build that was announced run. Errors: Conflict for one that has.
func (b *build) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status != waiting {
		return &sandbox.Error{Class: sandbox.Conflict, Field: "buildID", Reason: "this build was started before"}
	}
	b.status = building
	return nil
}

func (b *build) write(level, step, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.log) >= maxLog || b.size > maxLogBytes {
		return
	}
	if b.size += len(text); len(b.log) == maxLog-1 || b.size > maxLogBytes {
		level, text = "warn", "the rest of the log is not kept"
	}
	b.log = append(b.log, buildEntry{time.Now().UTC(), text, level, step})
}

// over notes how a build has ended; why is empty if it has ended well.
func (b *build) over(step, why string) {
	if why != "" {
		b.write("error", step, why)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = time.Now().UTC()
	if why == "" {
		b.status = ready
		return
	}
	b.status, b.reason = failed, &statusReason{why, step, slices.Clone(b.log[max(0, len(b.log)-10):])}
}

// newBuildID is a random UUID, which is what clients take for the id of a build.
func newBuildID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // which never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	hex := strings.Builder{}
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			hex.WriteByte('-')
		}
		hex.WriteString(strconv.FormatUint(uint64(c)|0x100, 16)[1:])
	}
	return hex.String()
}

// announce begins with a template: its id is its name.
func (d *Dialect) announce(v *rest.Visit) error {
	var req struct {
		Name     string   `json:"name"`
		Alias    string   `json:"alias"`
		Tags     []string `json:"tags"`
		CPUCount float64  `json:"cpuCount"`
		MemoryMB int64    `json:"memoryMB"`
	}
	if err := v.Body(&req); err != nil {
		return err
	}
	name, tag, _ := strings.Cut(cmp.Or(req.Name, req.Alias), ":")
	if err := engine.ValidName(name); err != nil {
		return err
	}
	if isBuiltin(name) {
		return sandbox.Invalidf("name", "%s is there already and is not built", name)
	}
	one := &build{id: newBuildID(), tenant: v.Who.Tenant, name: name, tags: req.Tags, created: time.Now().UTC(), status: waiting,
		limits: sandbox.Limits{CPUs: req.CPUCount, MemoryBytes: req.MemoryMB << 20}}
	if tag != "" && !slices.Contains(one.tags, tag) {
		one.tags = append(one.tags, tag)
	}
	if len(one.tags) == 0 {
		one.tags = []string{defaultTag}
	}
	if err := (sandbox.Spec{Limits: one.limits}).Validate(); err != nil {
		return err
	}
	if err := d.builds.add(one); err != nil {
		return err
	}
	return v.Answer(http.StatusAccepted, map[string]any{"templateID": name, "buildID": one.id, "public": false,
		"names": []string{name}, "aliases": []string{name}, "tags": one.tags})
}

// startBuild has a build run, for as long as it takes: its maker asks how it goes.
func (d *Dialect) startBuild(v *rest.Visit) error {
	var req buildRequest
	if err := v.Body(&req); err != nil {
		return err
	}
	one, ok := d.builds.find(v.Who, v.PathValue("template"), v.PathValue("build"))
	if !ok {
		return noBuild
	}
	plan, err := d.plan(v.Context(), v.Who, req, one)
	if err != nil {
		return err
	}
	leave, err := v.Creation()
	if err != nil {
		return err
	}
	err = d.builds.start(one, func() {
		defer leave()
		d.run(v, one, plan)
	})
	if err != nil {
		leave()
		return err
	}
	v.Writer.Header().Set("Content-Length", "0") // without which clients look for JSON
	return v.Answer(http.StatusAccepted, nil)
}

var noBuild = &sandbox.Error{Class: sandbox.NotFound, Field: "buildID", Reason: "there is no such build"}

// run makes the template.
func (d *Dialect) run(v *rest.Visit, one *build, p plan) {
	at := -1 // the step of the recipe that runs
	notify := func(step string) {
		switch line, output := strings.CutPrefix(step, engine.StepOutput); {
		case output:
			one.write("info", p.step(at), line)
			return
		case step == engine.StepCreate:
			at = -1
		case strings.HasPrefix(step, engine.StepRun+" "), strings.HasPrefix(step, engine.StepCached+" "):
			at++
		case strings.HasPrefix(step, engine.StepStart+" "), step == engine.StepReady:
			at = len(p.of)
		}
		one.write("debug", p.step(at), step)
	}
	_, err := d.engine.PrepareTemplate(d.builds.life, v.Who, p.request, notify)
	if err == nil {
		one.over("", "")
		return
	}
	one.over(p.step(at), message(v.Failure(err)))
}

// buildInfo tells how a build goes. One of the daemon before is known by what it made.
func (d *Dialect) buildInfo(v *rest.Visit) error {
	template, id := v.PathValue("template"), v.PathValue("build")
	one, ok := d.builds.find(v.Who, template, id)
	if !ok {
		if _, err := d.builtAs(v.Context(), v.Who, template, id); err != nil {
			return err
		}
		one = &build{id: id, name: template, status: ready}
	}
	offset, err := whole(v.URL.Query().Get("logsOffset"), 0)
	if err != nil {
		return err
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	body := map[string]any{"templateID": one.name, "buildID": one.id, "status": one.status, "logs": []string{}, "logEntries": logPart(one.log, offset)}
	if one.reason != nil {
		body["reason"] = one.reason
	}
	return v.Answer(http.StatusOK, body)
}

func (d *Dialect) buildLogs(v *rest.Visit) error {
	one, ok := d.builds.find(v.Who, v.PathValue("template"), v.PathValue("build"))
	if !ok {
		return noBuild
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return v.Answer(http.StatusOK, map[string]any{"logs": logPart(one.log, 0)})
}

// logPart is a part of a log.
func logPart(log []buildEntry, offset int) []buildEntry {
	log = log[min(offset, len(log)):]
	return append([]buildEntry{}, log[:min(len(log), logPage)]...)
}

// whole reads a number of a query that is not negative.
func whole(text string, otherwise int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, sandbox.Invalidf("query", "%.20q is not a number", text)
	}
	return int(n), nil
}

// builtAs finds the version of a template that a build has made. Errors: NotFound.
func (d *Dialect) builtAs(ctx context.Context, who engine.Caller, template, id string) (engine.TemplateInfo, error) {
	for info, err := range d.versions(ctx, who, template) {
		if err != nil {
			return info, err
		}
		if buildOf(info) == id {
			return info, nil
		}
	}
	return engine.TemplateInfo{}, noBuild
}
