package engine

import (
	"time"

	"aether/sandbox"
)

// TemplateState is what a template of a tenant is doing.
type TemplateState string

const (
	TemplatePreparing TemplateState = "preparing"
	TemplateReady     TemplateState = "ready"
	// TemplateFailed: it was ready once and could not be prepared anew, or its sandbox
	// has ended. The next who asks for it has it tried again, where there is a recipe.
	TemplateFailed TemplateState = "failed"
)

// TemplateRequest is what a template of a tenant is to be.
type TemplateRequest struct {
	// Recipe is what it is made of. Its name is the template's: each preparation of a
	// name is the next version of it.
	Recipe Recipe `json:"recipe"`
	// Tags are what this version is asked for by, as NAME:TAG. One that an older version
	// has moves.
	Tags []string `json:"tags,omitempty"`
	// Driver runs it; empty is the best that can fork what the recipe needs.
	Driver string `json:"driver,omitempty"`
	// Ahead is how many children are kept ready; zero is as many as for the version
	// before.
	Ahead int `json:"ahead,omitempty"`
	// Version is the number that it must become, for those who replace nothing but what
	// they know; zero is any.
	Version int `json:"version,omitempty"`
	// NoCache has every command of the recipe run, also those whose files are kept. What
	// they leave is kept instead.
	NoCache bool `json:"no_cache,omitempty"`
	// NoCacheFrom has the commands from a number on run so, the first being 1; zero is none.
	NoCacheFrom int `json:"no_cache_from,omitempty"`
	// Key makes the call idempotent: the same key gives the same answer.
	Key string `json:"-"`
}

// PromoteRequest is what a template that is made of a sandbox is to be; see
// TemplateRequest.
type PromoteRequest struct {
	Name    string   `json:"name"`
	Tags    []string `json:"tags,omitempty"`
	Ahead   int      `json:"ahead,omitempty"`
	Version int      `json:"version,omitempty"`
	Key     string   `json:"-"`
}

// TemplateChange is what of a template can be changed: what is nil stays as it is.
type TemplateChange struct {
	// Tags replaces those of the version.
	Tags []string `json:"tags,omitzero"`
	// Ahead is how many children are kept ready, zero being none.
	Ahead *int `json:"ahead,omitempty"`
}

// TemplateInfo is what the engine knows of one version of a template, at one moment.
type TemplateInfo struct {
	// ID is that of the version and of its own sandbox, the root of its fork tree.
	ID      string   `json:"id"`
	Tenant  string   `json:"tenant"`
	Name    string   `json:"name"`
	Version int      `json:"version"`
	Tags    []string `json:"tags,omitempty"`
	// Latest says that it is the one which is meant by the name alone.
	Latest bool          `json:"latest,omitempty"`
	State  TemplateState `json:"state"`
	// Reason is why it failed, or why a restart of the engine loses it.
	Reason string `json:"reason,omitempty"`
	// Step is what is being done to one that is prepared.
	Step string `json:"step,omitempty"`
	// Commands is what became of the commands of the recipe when it was last prepared.
	Commands []PreparedCommand `json:"commands,omitempty"`
	// Recipe is what it was made of; of one that was made of a sandbox, Source is that, and
	// the recipe has its Spec alone.
	Recipe Recipe `json:"recipe"`
	Source string `json:"source,omitempty"`
	// Driver runs it, and Fidelity is what its forks carry over.
	Driver   string           `json:"driver,omitempty"`
	Boundary sandbox.Boundary `json:"boundary,omitempty"`
	Fidelity sandbox.Fidelity `json:"fork_fidelity,omitempty"`
	// Frozen says that it stands still between its forks.
	Frozen bool `json:"frozen,omitempty"`
	// Resident is what it left running.
	Resident *Resident `json:"resident,omitempty"`
	Created  time.Time `json:"created"`
	// Prepared is when it was ready, in this engine, and Took how long that took.
	Prepared time.Time     `json:"prepared,omitzero"`
	Took     time.Duration `json:"prepare_ns,omitempty"`
	// Stats is what it uses by itself.
	Stats *sandbox.Stats `json:"stats,omitempty"`
	// Ahead is how many children are to be kept ready, and Pool how that goes.
	Ahead int        `json:"ahead,omitempty"`
	Pool  *PoolStats `json:"pool,omitempty"`
	// Forks counts the sandboxes that were made of it in this engine, and Living those that
	// have not ended.
	Forks  int `json:"forks"`
	Living int `json:"living"`
}

// PreparedCommand is what became of a command of a recipe.
type PreparedCommand struct {
	// Command is shortened.
	Command string `json:"command"`
	// Cached says that it was not run: its files were kept by another preparation.
	Cached bool `json:"cached"`
	// Took is how long it ran.
	Took time.Duration `json:"took_ns,omitempty"`
	// Unkept is why what it left was not kept, if it was not.
	Unkept string `json:"unkept,omitempty"`
}

// TemplateQuery chooses templates. Everything that is set must hold.
type TemplateQuery struct {
	Tenant string // of operators; others see their own
	Name   string
	// After is the Next of the page before, and Limit the length of a page, 100 at
	// most and by default.
	After string
	Limit int
}

// TemplatePage is a part of a list, by name and version.
type TemplatePage struct {
	Templates []TemplateInfo `json:"templates"`
	// Next is empty on the last page.
	Next string `json:"next,omitempty"`
}

const (
	maxTags   = 16
	maxAhead  = 1000
	maxSource = 1 << 20 // of code, which is remembered
)

// cached is of how many commands the kept files may be used.
func (r TemplateRequest) cached() int {
	switch {
	case r.NoCache:
		return 0
	case r.NoCacheFrom > 0:
		return min(r.NoCacheFrom-1, maxRun)
	}
	return maxRun
}

func (r TemplateRequest) validate(who Caller) error {
	if err := r.Recipe.Validate(); err != nil {
		return err
	}
	if r.Recipe.Code != nil && len(r.Recipe.Code.Source) > maxSource {
		return sandbox.Invalidf("code", "%d bytes are more than %d", len(r.Recipe.Code.Source), maxSource)
	}
	if r.NoCacheFrom < 0 {
		return sandbox.Invalidf("no_cache_from", "%d is negative", r.NoCacheFrom)
	}
	if r.Recipe.Spec.ID != "" {
		return sandbox.Invalidf("recipe.spec.id", "ids are the engine's: leave it empty")
	}
	return declaration{r.Tags, r.Ahead, r.Version, r.Key}.validate(who)
}

func (r PromoteRequest) validate(who Caller) error {
	if err := ValidName(r.Name); err != nil {
		return err
	}
	return declaration{r.Tags, r.Ahead, r.Version, r.Key}.validate(who)
}

// declaration is what is said of a template besides what it is.
type declaration struct {
	tags    []string
	ahead   int
	version int
	key     string
}

func (d declaration) validate(who Caller) error {
	switch {
	case d.ahead < 0 || d.ahead > maxAhead:
		return sandbox.Invalidf("ahead", "%d is not between 0 and %d", d.ahead, maxAhead)
	case d.version < 0:
		return sandbox.Invalidf("version", "%d is negative", d.version)
	case len(d.tags) > maxTags:
		return sandbox.Invalidf("tags", "%d are more than %d", len(d.tags), maxTags)
	}
	for _, tag := range d.tags {
		if !isTag(tag) {
			return sandbox.Invalidf("tags", "%.80q must be letters, digits, dots, dashes and underscores, at most %d, and begins with a letter or digit", tag, maxName)
		}
	}
	return terms{key: d.key}.validate(who)
}
