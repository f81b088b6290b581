package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"aether/image/initramfs"
	"aether/sandbox"
)

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		field string // that is refused, or empty
	}{
		{"", ""},
		{"-driver firecracker -binary " + file, ""},
		{"-driver virtualbox", "driver"},
		{"-driver firecracker -binary " + file + " -jailer " + file, ""},
		{"-driver cloud-hypervisor -binary " + file + " -jailer " + file, "jailer"},
		{"-driver firecracker -jailer " + file, "jailer"},
		{"-driver firecracker -binary " + file + " -jailer /nowhere/at/all", "jailer"},
		{"-binary /nowhere/at/all", "binary"},
		{"-binary " + t.TempDir(), "binary"},
		{"-memory 100", "memory"},
		{"-compare -binary " + file, ""},
		{"-compare", "compare"},
		{"-json x", "json"},
		{"-compare -run TestX -binary " + file, "run"},
		{"-crowds 2", ""},
		{"-crowds 2 -run TestX", "run"},
		{"-compare -children -1 -binary " + file, "children"},
		{"-driver aethervm -whole", ""},
		{"-driver qemu-kvm -whole", "whole"},
		{"-driver aethervm -whole -run TestX", "whole"},
		{"-driver aethervm -whole -crowds 1", "whole"},
		{"-unknown", "flags"},
		{"rest", "flags"},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		e, _ := err.(*sandbox.Error)
		if c.field == "" && err != nil || c.field != "" && (e == nil || e.Field != c.field) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestFollow(t *testing.T) {
	for console, want := range map[string]result{
		"boot\r\nPASS\r\n" + verdict + "0\r\n": {found: true},
		verdict + "2\n":                        {code: 2, found: true},
		verdict + "many\n":                     {},
		"Kernel panic\n":                       {},
		"":                                     {},
		reported + "{\"rounds\":5}\r\n":        {report: `{"rounds":5}`},
		"--- PASS: TestA (1s)\r\n    --- PASS: TestA/b (0s)\n    --- FAIL: TestA/c (0s)\n--- SKIP: TestB (0s)\n": {
			passed: 2, failed: 1, skipped: 1, ended: []string{"TestA", "TestA/b", "TestA/c", "TestB"}},
		"--- SKIP: " + suiteName + " (1s)\n    --- SKIP: " + suiteName + "/a (1s)\n": {skipped: 2, ended: []string{suiteName, suiteName + "/a"}, suiteSkipped: true},
		"    --- SKIP: " + suiteName + "/a (1s)\n":                                   {skipped: 1, ended: []string{suiteName + "/a"}},
		"--- SKIP: TestAethervm (1s)\n":                                              {skipped: 1, ended: []string{"TestAethervm"}, suiteSkipped: true},
	} {
		var out bytes.Buffer
		if got := follow(strings.NewReader(console), &out, func() {}); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v", console, got)
		}
		if shown := strings.ReplaceAll(console, "\r", ""); out.String() != shown && want.report == "" {
			t.Errorf("shown %q, want %q", out.String(), shown)
		}
	}
}

// TestFollowBeats: a lab that only beats is heard, and what it says between is whole.
func TestFollowBeats(t *testing.T) {
	beats := strings.Repeat(string(rune(beat)), 200)
	var out bytes.Buffer
	heard := 0
	got := follow(iotest.OneByteReader(strings.NewReader(beats+"--- PA"+beats+"SS: TestA (1s)\n"+beats)), &out, func() { heard++ })
	if want := "--- PASS: TestA (1s)\n"; got.passed != 1 || out.String() != want || heard != 3*len(beats)+len(want) {
		t.Errorf("%+v, heard %d times: %q", got, heard, out.String())
	}
}

// TestKeep: a report that is none is refused, and one that was there stays.
func TestKeep(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kvm-lab.json")
	for _, report := range []string{`{"rounds":5}`, `{"rounds":`, ""} {
		err := result{report: report}.keep(name)
		if (err == nil) != json.Valid([]byte(report)) {
			t.Errorf("%q: %v", report, err)
		}
		if text, err := os.ReadFile(name); err != nil || string(text) != "{\n \"rounds\": 5\n}\n" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// TestBootThatStandsStill: what has not ended is run at the next boot, until none more ends in
// two.
func TestBootThatStandsStill(t *testing.T) {
	const still = "exec sleep 1000"
	for _, c := range []struct {
		script string // of the boot $n
		want   result
		err    error
	}{
		{`case $n in 1) ` + still + `;; *) echo "` + verdict + `0"; esac`, result{found: true, boots: 2}, nil},
		{still, result{boots: 2}, errStill},
		{`case $n in
		1) echo "--- PASS: TestA/b.c (1s)"; ` + still + `;;
		2) grep -aqF '^TestA$/^b\\.c$' initramfs && ` + still + `;;
		3) echo "--- FAIL: TestB (1s)"; ` + still + `;;
		4) grep -aqF '^TestB$|^TestA$/^b\\.c$' initramfs && echo "--- PASS: TestC (1s)" && echo "` + verdict + `0"; esac`,
			result{code: 1, found: true, passed: 2, failed: 1, ended: []string{"TestA/b.c", "TestB", "TestC"}, boots: 4}, nil},
	} {
		var (
			r    result
			err  error
			said string
		)
		for _, silence := range []time.Duration{time.Second, 10 * time.Second, time.Minute} { // until the host is fast enough
			r, said, err = bootOf(t, silence, `n=$(($(cat boots 2>/dev/null) + 1)); echo $n >boots; `+c.script)
			if reflect.DeepEqual(r, c.want) {
				break
			}
		}
		if !errors.Is(err, c.err) || !reflect.DeepEqual(r, c.want) || strings.Count(said, "what is left of files") != c.want.boots-1 {
			t.Errorf("%s: %+v, %v: %s", c.script, r, err, said)
		}
	}
}

// TestWhatIsLeft: a program of tests says which ended, and runs what is left of them.
func TestWhatIsLeft(t *testing.T) {
	names := []string{"a", "b c", "d|e", "f(g", "h[i/j", "k.l"}
	const inner = "AETHER_KVMTEST_INNER"
	if os.Getenv(inner) != "" {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {})
		}
		return
	}
	ended := func(p part) []string {
		cmd := exec.Command(os.Args[0], append([]string{"-test.v=test2json"}, p.arguments()...)...)
		cmd.Env = append(os.Environ(), inner+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatal(err, string(out))
		}
		return follow(bytes.NewReader(out), io.Discard, func() {}).ended
	}
	all := part{run: "^" + t.Name() + "$", skip: []string{"^" + t.Name() + "$/^(a|z)$"}}
	first := ended(all)
	if len(first) != len(names) { // without one, with the test itself
		t.Fatalf("ended: %q", first)
	}
	for _, name := range first[:len(first)-1] {
		if got := ended(all.without([]string{name})); len(got) != len(first)-1 || slices.Contains(got, name) {
			t.Errorf("without %q: %q", name, got)
		}
	}
	if got := ended(all.without(first)); len(got) != 0 {
		t.Errorf("without any: %q", got)
	}
}

func TestWorse(t *testing.T) {
	for _, c := range [][3]int{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 2, 2}, {stillCode, 0, stillCode}, {0, stillCode, stillCode}, {stillCode, 1, 1}, {2, stillCode, 2}} {
		if got := worse(c[0], c[1]); got != c[2] {
			t.Errorf("%d and %d: %d", c[0], c[1], got)
		}
	}
}

// bootOf makes a boot of a machine that is a script, and may be silent for so long.
func bootOf(t *testing.T, silence time.Duration, script string) (result, string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte("#!/bin/sh\ncd "+dir+"\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	disk, err := os.Create(filepath.Join(dir, "disk"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{options: options{limit: 5 * time.Minute, silence: silence}, dir: dir, disk: disk, guest: &initramfs.Guest{}}
	var said bytes.Buffer
	r, err := l.runPart(t.Context(), part{name: "files"}, io.Discard, &said)
	return r, said.String(), err
}

// TestPartsAreGroupsOfTheSuite: a boot for a group that is not there would run
// nothing, and pass.
func TestPartsAreGroupsOfTheSuite(t *testing.T) {
	text, err := os.ReadFile("../../driver/drivertest/run.go")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]int)
	for _, names := range heavy {
		for name := range strings.SplitSeq(names, "|") {
			named[name]++
			if !strings.Contains(string(text), `t.Run("`+name+`"`) && !strings.Contains(string(text), `{"`+name+`", `) {
				t.Errorf("%s is no group of the suite", name)
			}
		}
	}
	for name, count := range named {
		if count > 1 {
			t.Errorf("%s is run %d times", name, count)
		}
	}
	rest := options{}.parts()[0]
	if args := rest.arguments(); !slices.Equal(args, []string{"-test.skip", "^TestConformance$/^(" + strings.Join(heavy, "|") + ")$"}) {
		t.Errorf("the first part has %q", args)
	}
	for name, o := range map[string]options{"TestBeside": {compare: true, crowds: 1}, "TestCrowds": {crowds: 1}} {
		if list := o.parts(); len(list) != 1 || !slices.Equal(list[0].arguments(), []string{"-test.run", "^" + name + "$"}) || list[0].pkg != "./lab/monitor" {
			t.Errorf("%+v", list)
		}
	}
	if only := (options{tests: "TestX"}).parts(); len(only) != 1 || !slices.Equal(only[0].arguments(), []string{"-test.run", "TestX"}) {
		t.Errorf("%+v", only)
	}
	// The test of the whole program is alone, or the last.
	for want, o := range map[int]options{1: {driver: "aethervm", whole: true}, len(heavy) + 2: {driver: "aethervm"}} {
		list := o.parts()
		if last := list[len(list)-1]; len(list) != want || last.pkg != "./cmd/aether" || !slices.Equal(last.arguments(), []string{"-test.run", "^TestAethervm$"}) {
			t.Errorf("%+v: %+v", o, list)
		}
	}
}

// Every driver that the lab knows is there to be tested, or will be.
func TestPackagesAreNamesOfFolders(t *testing.T) {
	for name, folder := range packages {
		if strings.ContainsAny(folder, "/-") || slices.Contains([]string{"", "all", "drivertest"}, folder) {
			t.Errorf("%s: %q is no driver's folder", name, folder)
		}
	}
	for name := range programs {
		if packages[name] == "" {
			t.Errorf("%s has programs and no folder", name)
		}
	}
}

// What is handed in is in the lab, and the tests know of it.
func TestBinaries(t *testing.T) {
	for _, c := range []struct {
		options
		want map[string]string
		told string
	}{
		{options{}, map[string]string{}, ""},
		{options{binary: "/a/firecracker-v1"}, map[string]string{"firecracker-v1": "/a/firecracker-v1"}, "/usr/local/bin/firecracker-v1"},
		{options{binary: "/a/firecracker", jailer: "/b/jailer-v1"},
			map[string]string{"firecracker": "/a/firecracker", "jailer": "/b/jailer-v1"}, "/usr/local/bin/firecracker"},
	} {
		l := &lab{options: c.options, guest: &initramfs.Guest{}}
		if got := l.binaries(); !maps.Equal(got, c.want) {
			t.Errorf("%+v: %q", c.options, got)
		}
		told := ""
		for _, line := range l.config(part{}).Env {
			if name, ok := strings.CutPrefix(line, "AETHER_TEST_BINARY="); ok {
				told = name
			}
		}
		if told != c.told {
			t.Errorf("%+v: the tests are told of %q", c.options, told)
		}
	}
}
