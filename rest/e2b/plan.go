package e2b

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// buildRequest is what a template is made of, step by step.
type buildRequest struct {
	FromImage         string      `json:"fromImage"`
	FromTemplate      string      `json:"fromTemplate"`
	FromImageRegistry any         `json:"fromImageRegistry"`
	StartCmd          string      `json:"startCmd"`
	ReadyCmd          string      `json:"readyCmd"`
	Steps             []buildStep `json:"steps"`
	Force             bool        `json:"force"`
}

type buildStep struct {
	Type      string   `json:"type"`
	Args      []string `json:"args"`
	FilesHash string   `json:"filesHash"`
	Force     bool     `json:"force"`
}

const (
	// buildTime bounds a build.
	buildTime = time.Hour
	// plainPath is where programs are looked for as long as a build says nothing else.
	plainPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	userName = "user"
	userHome = "/home/user"
)

// plan is a build as the engine is asked for it.
type plan struct {
	request engine.TemplateRequest
	// of are the numbers that the client gives the steps of the recipe, the first being 1.
	// What was there before is 0.
	of []int

	env       map[string]string
	user, dir string
	weight    int // of the variables of all steps
}

// step is how the client calls a step of the recipe.
func (p *plan) step(at int) string {
	switch {
	case at >= len(p.of):
		return "finalize"
	case at < 0 || p.of[at] == 0:
		return "base"
	}
	return strconv.Itoa(p.of[at])
}

// plan makes a recipe of a build. Errors: Invalid; Unsupported; NotFound.
func (d *Dialect) plan(ctx context.Context, who engine.Caller, req buildRequest, one *build) (plan, error) {
	p := plan{env: map[string]string{}, user: userName, dir: userHome}
	r := &p.request.Recipe
	r.Name, r.Idle, r.Spec.Limits = one.name, true, one.limits
	r.Spec.Metadata = map[string]string{markBuild: one.id}
	r.Ready.Timeout = buildTime
	p.request.Tags = one.tags
	network, err := networkConfig{}.policy(nil)
	if err != nil {
		return p, err
	}
	r.Spec.Network = network
	if err := d.base(ctx, who, req, &p); err != nil {
		return p, err
	}
	if req.Force {
		p.request.NoCacheFrom = len(p.of) + 1
	}
	for i, step := range req.Steps {
		before := len(p.of)
		if err := p.add(step); err != nil {
			return p, err
		}
		for range len(r.Steps) - before {
			p.of = append(p.of, i+1)
		}
		if step.Force && p.request.NoCacheFrom == 0 && len(p.of) > before {
			p.request.NoCacheFrom = before + 1
		}
	}
	if req.StartCmd != "" || req.ReadyCmd != "" {
		r.Command, r.Ready = nil, engine.Ready{Timeout: buildTime}
	}
	if req.StartCmd != "" {
		r.Command = shell(req.StartCmd)
	}
	if req.ReadyCmd != "" {
		r.Ready.Command = shell(req.ReadyCmd)
	}
	p.settle()
	return p, nil
}

// base is what a build begins with: an image, which has the user that clients expect, or
// the recipe of another template.
func (d *Dialect) base(ctx context.Context, who engine.Caller, req buildRequest, p *plan) error {
	r := &p.request.Recipe
	switch {
	case req.FromImageRegistry != nil:
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "fromImageRegistry", Reason: "passwords of registries are not taken from clients",
			Remedy: "the operator of the daemon can give the tenant a login"}
	case (req.FromImage == "") == (req.FromTemplate == ""):
		return sandbox.Invalidf("fromImage", "a template is made of an image or of a template, and of one of them")
	case req.FromTemplate == "":
		if code, ours := builtinImage(req.FromImage); ours {
			p.mark(code)
			return nil
		}
		r.Spec.Image = req.FromImage
		r.Steps = append(r.Steps, engine.Step{Name: "add the user " + userName, User: "root", Dir: "/", Stated: true, Command: []string{"/bin/sh", "-ec", addUser}},
			engine.Step{Name: "add " + userHome, Stated: true, Files: engine.Files{Target: userHome, Owner: userName}})
	case isBuiltin(req.FromTemplate):
		p.mark(strings.EqualFold(req.FromTemplate, codeTemplate))
		return nil
	default:
		t, err := d.template(ctx, who, req.FromTemplate)
		if err != nil {
			return err
		}
		if t.Source != "" || t.Recipe.Code != nil {
			return unsupported("fromTemplate", "this template was made of a sandbox or of code, and not step by step")
		}
		p.mark(t.Recipe.Spec.Metadata[markCode] != "")
		p.inherit(t.Recipe)
	}
	p.of = make([]int, len(r.Run)+len(r.Steps))
	return nil
}

// builtinImage says whether an image of E2B's is one that is there from the beginning.
func builtinImage(name string) (code, ours bool) {
	name, _, _ = strings.Cut(name, ":")
	return name == "e2bdev/code-interpreter", name == "e2bdev/base" || name == "e2bdev/code-interpreter" || name == sandbox.HostImage
}

func (p *plan) mark(code bool) {
	if code {
		p.request.Recipe.Spec.Metadata[markCode] = "yes"
	}
}

// inherit begins where another recipe ends.
func (p *plan) inherit(from engine.Recipe) {
	r := &p.request.Recipe
	r.Spec.Image, r.Run, r.Command, r.Ready = from.Spec.Image, from.Run, from.Command, from.Ready
	for _, step := range from.Steps {
		step = restated(step, from.Spec.Command)
		p.weight += weightOf(step.Env)
		r.Steps = append(r.Steps, step)
	}
	r.Ready.Timeout = buildTime
	maps.Copy(p.env, from.Spec.Command.Env)
	if from.Spec.Command.User != "" {
		p.user = from.Spec.Command.User
	}
	if from.Spec.Command.WorkDir != "" {
		p.dir = from.Spec.Command.WorkDir
	}
	if r.Spec.Limits == (sandbox.Limits{}) {
		r.Spec.Limits = from.Spec.Limits
	}
}

// restated is a step of another recipe that is as it was there, whatever the defaults of a
// recipe are that begins with it.
func restated(step engine.Step, there sandbox.CommandDefaults) engine.Step {
	if step.Stated {
		return step
	}
	env := maps.Clone(there.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, step.Env)
	step.Env, step.User, step.Dir = env, cmp.Or(step.User, there.User), cmp.Or(step.Dir, there.WorkDir)
	step.Stated = len(step.Command) == 0 || step.User != "" && step.Dir != ""
	return step
}

// addUser makes the user that clients expect, with a number that nobody has.
const addUser = `grep -q '^user:' /etc/passwd && exit 0
id=1000
while grep -q "^[^:]*:[^:]*:$id:" /etc/passwd || grep -q "^[^:]*:[^:]*:$id:" /etc/group; do id=$((id+1)); done
shell=/bin/sh; test -x /bin/bash && shell=/bin/bash
echo "user:x:$id:$id::/home/user:$shell" >> /etc/passwd
grep -q '^user:' /etc/group || echo "user:x:$id:" >> /etc/group`

// shell has a line be run by a login shell: bash, where there is one.
func shell(line string) []string {
	return []string{"/bin/sh", "-c", `exec "$(command -v bash || echo sh)" -l -c "$1"`, "sh", line}
}

// add adds one step of a build. Errors: Invalid.
func (p *plan) add(s buildStep) error {
	arg := func(i int) string {
		if i < len(s.Args) {
			return s.Args[i]
		}
		return ""
	}
	r := &p.request.Recipe
	name := s.Type + " " + strings.Join(s.Args, " ")
	name = strings.ToValidUTF8(name[:min(len(name), 1024)], "")
	switch s.Type {
	case "RUN":
		if arg(0) == "" {
			return sandbox.Invalidf("steps", "RUN has no command")
		}
		user := p.user
		if arg(1) != "" {
			user = arg(1)
		}
		r.Steps = append(r.Steps, engine.Step{Name: name, User: user, Dir: p.dir, Env: maps.Clone(p.env), Stated: true, Command: shell(arg(0))})
		return p.weigh()
	case "ENV":
		if len(s.Args)%2 != 0 {
			return sandbox.Invalidf("steps", "ENV is pairs of a name and a value")
		}
		before := maps.Clone(p.env)
		for i := 0; i < len(s.Args); i += 2 {
			p.env[s.Args[i]] = expand(s.Args[i+1], before)
		}
	case "USER":
		if arg(0) == "" {
			return sandbox.Invalidf("steps", "USER names nobody")
		}
		p.user = arg(0)
	case "WORKDIR":
		p.dir = p.absolute(expand(arg(0), p.env))
		if p.dir != "/" {
			r.Steps = append(r.Steps, engine.Step{Name: name, Stated: true, Files: engine.Files{Target: p.dir, Owner: p.user}})
		}
	case "COPY":
		return p.copy(s, name, arg)
	default:
		return sandbox.Invalidf("steps", "%.20q is no step: there are RUN, COPY, ENV, WORKDIR and USER", s.Type)
	}
	return nil
}

func (p *plan) copy(s buildStep, name string, arg func(int) string) error {
	files := engine.Files{Archive: s.FilesHash, Source: arg(0), Target: p.absolute(arg(1)), Owner: p.user}
	if arg(1) == "" || strings.HasSuffix(arg(1), "/") || arg(1) == "." || strings.HasSuffix(arg(1), "/.") {
		files.Target = strings.TrimSuffix(files.Target, "/") + "/"
	}
	if path.Clean(files.Target) == "/" {
		return unsupported("steps", "files are not copied to the root itself: copy each directory to its own")
	}
	if arg(2) != "" {
		files.Owner = arg(2)
	}
	if arg(3) != "" {
		mode, err := strconv.ParseInt(arg(3), 8, 64)
		if err != nil {
			return sandbox.Invalidf("steps", "%.20q is not the mode of a file", arg(3))
		}
		files.Mode = mode
	}
	p.request.Recipe.Steps = append(p.request.Recipe.Steps, engine.Step{Name: name, Stated: true, Files: files})
	return nil
}

func (p *plan) absolute(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(p.dir, name)
}

// expand puts what was set before in place of $NAME and ${NAME}.
func expand(text string, env map[string]string) string {
	return os.Expand(text, func(name string) string {
		value, known := env[name]
		if !known && name == "PATH" {
			return plainPath
		}
		return value
	})
}

// maxStepEnv bounds the variables of all steps together, each of which has those of the
// moment.
const maxStepEnv = 1 << 20

func weightOf(env map[string]string) (n int) {
	for name, value := range env {
		n += len(name) + len(value)
	}
	return n
}

// weigh counts the variables of the last step. Errors: Invalid.
func (p *plan) weigh() error {
	if p.weight += weightOf(p.env); p.weight > maxStepEnv {
		return sandbox.Invalidf("steps", "the variables of all RUN steps together have more than %d bytes", maxStepEnv)
	}
	return nil
}

// settle has sandboxes begin with what the last step left.
func (p *plan) settle() {
	r := &p.request.Recipe
	r.Spec.Command = sandbox.CommandDefaults{User: p.user, WorkDir: p.dir}
	if len(p.env) > 0 {
		r.Spec.Command.Env = p.env
	}
}
