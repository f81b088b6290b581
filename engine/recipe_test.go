package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/interpreter"
	"aether/sandbox"
)

func wantInvalid(t testing.TB, err error, field string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != field {
		t.Errorf("got %v, want a fault of %s", err, field)
	}
}

func TestRecipes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*engine.Recipe)
		field  string
	}{
		"good": {func(*engine.Recipe) {}, ""},
		"code": {func(r *engine.Recipe) {
			r.Command, r.Code, r.Ready = nil, &engine.Code{Language: interpreter.Node}, engine.Ready{}
		}, ""},
		"every condition":     {func(r *engine.Recipe) { r.Ready.File = "/x" }, "ready"},
		"no name":             {func(r *engine.Recipe) { r.Name = "" }, "name"},
		"a path for a name":   {func(r *engine.Recipe) { r.Name = "../a" }, "name"},
		"long name":           {func(r *engine.Recipe) { r.Name = strings.Repeat("a", 41) }, "name"},
		"nothing to run":      {func(r *engine.Recipe) { r.Command = nil }, "command"},
		"two things to run":   {func(r *engine.Recipe) { r.Code = &engine.Code{Language: interpreter.Bash} }, "code"},
		"unknown language":    {func(r *engine.Recipe) { r.Command, r.Code = nil, &engine.Code{Language: "cobol"} }, "language"},
		"empty command":       {func(r *engine.Recipe) { r.Command = []string{""} }, "command"},
		"empty preparation":   {func(r *engine.Recipe) { r.Run = [][]string{nil} }, "run"},
		"much preparation":    {func(r *engine.Recipe) { r.Run = make([][]string, 257) }, "run"},
		"zero byte":           {func(r *engine.Recipe) { r.Command = []string{"a\x00"} }, "command"},
		"many arguments":      {func(r *engine.Recipe) { r.Command = make([]string, 5000); r.Command[0] = "a" }, "command"},
		"bad limits":          {func(r *engine.Recipe) { r.Spec.Limits.MemoryBytes = 1 }, "limits.memory"},
		"a lifetime":          {func(r *engine.Recipe) { r.Spec.Timeouts.Lifetime = 1 }, "timeouts.lifetime"},
		"two lines":           {func(r *engine.Recipe) { r.Ready.Line = "a\nb" }, "ready.line"},
		"relative file":       {func(r *engine.Recipe) { r.Ready = engine.Ready{File: "x"} }, "ready.file"},
		"negative time":       {func(r *engine.Recipe) { r.Ready.Timeout = -time.Second }, "ready.timeout"},
		"empty ready command": {func(r *engine.Recipe) { r.Ready = engine.Ready{Command: []string{""}} }, "ready.command"},
		"line of code":        {func(r *engine.Recipe) { r.Command, r.Code = nil, &engine.Code{Language: interpreter.Python} }, "ready.line"},
	} {
		t.Run(name, func(t *testing.T) {
			r := engine.Recipe{Name: "a-1", Command: []string{"sleep", "1"}, Ready: engine.Ready{Line: "up"}}
			c.change(&r)
			err := r.Validate()
			if c.field != "" {
				wantInvalid(t, err, c.field)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
