package rest_test

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/engine"
	"aether/image"
	"aether/rest"
	"aether/sandbox"
)

// realEngine is one with a state directory, for what cellEngine has not.
func realEngine(t testing.TB) *engine.Engine {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	e, err := engine.Open(engine.Options{State: at("state"), Drivers: []sandbox.Maker{{Name: cell.Name, New: func() sandbox.Driver {
		return cell.New(cell.Options{Images: func() (*image.Store, error) { return image.Open(at("images")) }, RunDir: at("run")})
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func bashTemplate(name, code string) engine.TemplateRequest {
	return engine.TemplateRequest{Recipe: engine.Recipe{Name: name, Code: &engine.Code{Language: "bash", Source: code}}}
}

// TestTemplates: every call of templates, by the client, with a real engine behind the
// door.
func TestTemplates(t *testing.T) {
	client := openTo(t, realEngine(t), rest.Limits{}).local(t)
	ctx := t.Context()
	var steps []string
	info, err := client.PrepareTemplate(ctx, bashTemplate("work", "echo 41 > /tmp/x"), func(p rest.TemplateProgress) { steps = append(steps, p.Step) })
	if err != nil || info.State != engine.TemplateReady || info.Version != 1 || strings.Join(steps, "; ") != "making the sandbox; starting bash; waiting until it is ready; trying a fork" {
		t.Fatalf("%+v, %v, after %q", info, err, steps)
	}
	made, err := client.Create(ctx, engine.CreateRequest{Template: "work"})
	if err != nil {
		t.Fatal(err)
	}
	if made.Resident == nil || made.Resident.Interpreter == nil || made.Template != "work@1" {
		t.Errorf("%+v", made)
	}
	if out, err := client.Exec(ctx, made.ID, rest.ExecRequest{Command: []string{"cat", "/tmp/x"}}); err != nil || out.Stdout.Text != "41\n" {
		t.Errorf("%+v, %v", out, err)
	}
	promoted, err := client.Promote(ctx, made.ID, engine.PromoteRequest{Name: "made", Tags: []string{"a"}})
	if err != nil || promoted.Source != made.ID {
		t.Errorf("%+v, %v", promoted, err)
	}
	ahead := 2
	changed, err := client.ChangeTemplate(ctx, "made:a", engine.TemplateChange{Tags: []string{"b"}, Ahead: &ahead})
	if err != nil || changed.Tags[0] != "b" || changed.Ahead != 2 {
		t.Errorf("%+v, %v", changed, err)
	}
	first, err := client.ListTemplates(ctx, engine.TemplateQuery{Limit: 1})
	if err != nil || len(first.Templates) != 1 || first.Templates[0].Name != "made" || first.Next == "" {
		t.Errorf("%+v, %v", first, err)
	}
	second, err := client.ListTemplates(ctx, engine.TemplateQuery{After: first.Next})
	if err != nil || len(second.Templates) != 1 || second.Templates[0].Living != 1 || second.Next != "" {
		t.Errorf("%+v, %v", second, err)
	}
	tree, err := client.TemplateTree(ctx, "work@1")
	if err != nil || len(tree) != 2 || tree[1].ID != made.ID {
		t.Errorf("%+v, %v", tree, err)
	}
	if err := client.RemoveTemplate(ctx, "made"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"made", "made@1", "none", "../sandboxes"} {
		if _, err := client.GetTemplate(ctx, name); sandbox.ClassOf(err) != sandbox.NotFound && sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusedTemplates: what is refused before anything is done has a status, and what
// fails later is the last line.
func TestRefusedTemplates(t *testing.T) {
	client := openTo(t, realEngine(t), rest.Limits{}).local(t)
	for name, c := range map[string]struct {
		req   engine.TemplateRequest
		class sandbox.Class
		steps bool
	}{
		"a bad name":        {bashTemplate("A", ""), sandbox.Invalid, false},
		"nothing to leave":  {engine.TemplateRequest{Recipe: engine.Recipe{Name: "a"}}, sandbox.Invalid, false},
		"another version":   {engine.TemplateRequest{Recipe: bashTemplate("a", "").Recipe, Version: 7}, sandbox.Conflict, false},
		"code that fails":   {bashTemplate("a", "false"), sandbox.Conflict, true},
		"a command fails":   {engine.TemplateRequest{Recipe: engine.Recipe{Name: "a", Run: [][]string{{"false"}}, Command: []string{"sleep", "9"}}}, sandbox.Conflict, true},
		"too much code":     {bashTemplate("a", strings.Repeat("#", 1<<20+1)), sandbox.Invalid, false},
		"too large a body":  {bashTemplate("a", strings.Repeat("#", 9<<20)), sandbox.Invalid, false},
		"no such driver":    {engine.TemplateRequest{Recipe: bashTemplate("a", "").Recipe, Driver: "none"}, sandbox.Invalid, false},
		"a negative number": {engine.TemplateRequest{Recipe: bashTemplate("a", "").Recipe, Ahead: -1}, sandbox.Invalid, false},
	} {
		steps := 0
		_, err := client.PrepareTemplate(t.Context(), c.req, func(rest.TemplateProgress) { steps++ })
		if sandbox.ClassOf(err) != c.class || (steps > 0) != c.steps {
			t.Errorf("%s: %v after %d steps", name, err, steps)
		}
	}
	if page, err := client.ListTemplates(t.Context(), engine.TemplateQuery{}); err != nil || len(page.Templates) > 0 {
		t.Errorf("%+v, %v is left", page, err)
	}
}

// TestAttached: the sandbox ends with its request, however that ends, and not before.
func TestAttached(t *testing.T) {
	client := openTo(t, realEngine(t), rest.Limits{}).local(t)
	made, err := client.CreateAttached(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := client.Exec(t.Context(), made.ID, rest.ExecRequest{Command: []string{"echo", "hi"}}); err != nil || out.Stdout.Text != "hi\n" {
		t.Errorf("%+v, %v", out, err)
	}
	if err := made.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool {
		s, err := client.Get(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		return s.State == engine.Ended
	})
	if _, err := client.CreateAttached(t.Context(), engine.CreateRequest{Template: "none"}); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("of nothing: %v", err)
	}
}

// TestTemplateLayers: who prepares the same again is told which commands were not run, and
// may have them run.
func TestTemplateLayers(t *testing.T) {
	client := openTo(t, realEngine(t), rest.Limits{}).local(t)
	req := bashTemplate("work", "")
	req.Recipe.Run = [][]string{{"sh", "-c", "echo 1 > /tmp/x"}}
	for i, want := range []string{engine.StepRun, engine.StepCached, engine.StepRun} {
		req.NoCache = i == 2
		var told []string
		info, err := client.PrepareTemplate(t.Context(), req, func(p rest.TemplateProgress) {
			if strings.HasSuffix(p.Step, "sh -c echo 1 > /tmp/x") {
				told = append(told, p.Step)
			}
		})
		if err != nil || len(told) != 1 || !strings.HasPrefix(told[0], want+" ") || len(info.Commands) != 1 || info.Commands[0].Cached != (want == engine.StepCached) {
			t.Errorf("%+v, %v, after %q", info.Commands, err, told)
		}
	}
	report, err := client.Prune(t.Context(), engine.PruneRequest{Layers: time.Hour})
	if err != nil || len(report.Removed) != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err = client.Prune(t.Context(), engine.PruneRequest{}); err != nil || len(report.Removed) != 1 || report.Removed[0].Kind != "recipe layer" {
		t.Errorf("%+v, %v", report, err)
	}
	if found, err := client.Doctor(t.Context()); err != nil || found.Layers != (engine.LayerUse{}) {
		t.Errorf("%+v, %v", found, err)
	}
}
