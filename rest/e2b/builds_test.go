package e2b

import (
	"strings"
	"testing"

	"aether/sandbox"
)

// TestBuildsAreBounded: a tenant's oldest builds are forgotten and no other's, those that
// run are not, and a log ends with a word that it does.
func TestBuildsAreBounded(t *testing.T) {
	all := newBuilds()
	defer all.close()
	add := func(id, tenant string, status buildStatus) error {
		return all.add(&build{id: id, tenant: tenant, name: "x", status: status})
	}
	if err := add("other", "bob", ready); err != nil {
		t.Fatal(err)
	}
	for range maxBuilds - 1 {
		if err := add(newBuildID(), "alice", building); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"old", "new"} {
		if err := add(id, "alice", ready); err != nil {
			t.Fatal(err)
		}
	}
	if all.byID["old"] != nil || all.byID["new"] == nil || all.byID["other"] == nil || len(all.list) != maxBuilds+1 {
		t.Errorf("%d are remembered", len(all.list))
	}
	all.byID["new"].status = building
	if err := add("more", "alice", waiting); sandbox.ClassOf(err) != sandbox.Exhausted {
		t.Error(err)
	}
	one := &build{}
	for range maxLogBytes/1000 + 10 {
		one.write("info", "1", strings.Repeat("x", 1000))
	}
	if last := one.log[len(one.log)-1]; len(one.log) != maxLogBytes/1000+1 || last.Level != "warn" {
		t.Errorf("%d lines, %+v", len(one.log), last.Level)
	}
}

// TestNoBuildBeginsAfterClose: a request that was cut may go on when the daemon ends.
func TestNoBuildBeginsAfterClose(t *testing.T) {
	all, end := newBuilds(), make(chan struct{})
	one := &build{status: waiting}
	if err := all.start(one, func() { <-all.life.Done(); close(end) }); err != nil {
		t.Fatal(err)
	}
	if err := all.start(one, func() { t.Error("it runs twice") }); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Error(err)
	}
	all.close()
	select {
	case <-end:
	default:
		t.Error("a build was not waited for")
	}
	if err := all.start(&build{status: waiting}, func() { t.Error("it runs") }); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Error(err)
	}
}

// TestPlans: what a build asks for becomes what the engine is asked for.
func TestPlans(t *testing.T) {
	p := plan{env: map[string]string{}, user: userName, dir: userHome}
	for _, s := range []buildStep{
		{Type: "ENV", Args: []string{"A", "1", "B", "$A/${PATH}"}}, {Type: "RUN", Args: []string{"one"}}, {Type: "ENV", Args: []string{"A", "2"}},
		{Type: "WORKDIR", Args: []string{"sub"}}, {Type: "USER", Args: []string{"root"}}, {Type: "RUN", Args: []string{"two", "user"}},
		{Type: "COPY", Args: []string{"a", "b/", "", "0750"}, FilesHash: "aa"},
	} {
		if err := p.add(s); err != nil {
			t.Fatal(err)
		}
	}
	p.settle()
	r := p.request.Recipe
	if c := r.Spec.Command; c.User != "root" || c.WorkDir != "/home/user/sub" || c.Env["A"] != "2" || c.Env["B"] != "/"+plainPath {
		t.Errorf("%+v", c)
	}
	if len(r.Steps) != 4 || r.Steps[0].Env["A"] != "1" || r.Steps[2].User != "user" || r.Steps[2].Env["A"] != "2" || r.Steps[2].Dir != "/home/user/sub" {
		t.Errorf("%+v", r.Steps)
	}
	for _, s := range r.Steps {
		if !s.Stated {
			t.Errorf("%s does not state its own", s.Name)
		}
	}
	if f := r.Steps[3].Files; f.Target != "/home/user/sub/b/" || f.Owner != "root" || f.Mode != 0o750 {
		t.Errorf("%+v", f)
	}
	for _, s := range []buildStep{{Type: "RUN"}, {Type: "ENV", Args: []string{"A"}}, {Type: "USER"}, {Type: "COPY", Args: []string{"a", "/"}}, {Type: "COPY", Args: []string{"a", "b", "", "9"}}, {Type: "VOLUME"}} {
		if p.add(s) == nil {
			t.Errorf("%+v is taken", s)
		}
	}
	p.env["LONG"] = strings.Repeat("x", maxStepEnv/4)
	for range 3 {
		if err := p.add(buildStep{Type: "RUN", Args: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.add(buildStep{Type: "RUN", Args: []string{"true"}}); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("variables of all steps together are not bounded: %v", err)
	}
}
