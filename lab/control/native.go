package control

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"aether/lab"
)

// natives show what systems do by their own interfaces, by the name of the system. One
// that is not here has nobody who calls it.
var natives = map[string]func(context.Context) (findings, error){
	"bubblewrap":     program{name: "bwrap", helps: [][]string{{"--help"}}, verbs: verbs{Policy: `--unshare-net`}, fail: []string{"--no-such-option"}}.find,
	"runc":           oci("runc").find,
	"crun":           oci("crun").find,
	"youki":          oci("youki").find,
	"gvisor":         program{name: "runsc", helps: [][]string{{"help"}}, verbs: subcommands, fail: []string{"-log-format=json", "state", "no-such-container"}}.find,
	"systemd-nspawn": program{name: "systemd-nspawn", helps: [][]string{{"--help"}}, verbs: verbs{Policy: `--system-call-filter=`, Snapshot: `--ephemeral`}, fail: []string{"--no-such-option"}}.find,
	"lxc":            lxc,
	"docker":         docker,
	"incus":          incus,
	// Containers of Kata are containerd's, and called by its programs.
	"containerd":       containerd.find,
	"kata":             containerd.find,
	"firecracker":      firecracker,
	"cloud-hypervisor": cloudHypervisor,
	"qemu-kvm":         qemu,
}

// containerd has a program with subcommands of subcommands.
var containerd = program{name: "ctr", helps: [][]string{{"--help"}, {"tasks", "--help"}, {"containers", "--help"}},
	verbs: verbs{Exec: subcommands[Exec], Snapshot: subcommands[Snapshot], Fork: subcommands[Fork], Events: `(?m)^\s+events,`, Policy: subcommands[Policy],
		Files: subcommands[Files], Schema: subcommands[Schema], Tools: subcommands[Tools]},
	fail: []string{"--connect-timeout", "1s", "containers", "info", "no-such-container"}}

// aethers are the systems whose own interface is Aether's.
var aethers = []string{"cell", "aethervm"}

// verbs are what the help of a program has, by a pattern, if the verb is there.
type verbs map[string]string

// subcommands are those of OCI runtimes. Features is the description of a runtime for
// programs.
var subcommands = verbs{Exec: `(?m)^\s+exec\s`, Files: `(?m)^\s+(cp|tar)\s`, Schema: `(?m)^\s+features\s`, Snapshot: `(?m)^\s+checkpoint\w*\s`,
	Fork: `(?m)^\s+fork\s`, Events: `(?m)^\s+events\s`, Policy: `(?m)^\s+update\s`, Tools: `(?m)^\s+tools\s`}

func oci(name string) program {
	return program{name: name, helps: [][]string{{"--help"}}, verbs: subcommands, fail: []string{"--log-format=json", "state", "no-such-container"}}
}

// program is a system that is a program to start.
type program struct {
	name  string
	helps [][]string // arguments with which it says what it can do
	verbs verbs
	// fail are arguments with which it fails: its errors are data if it then says JSON.
	fail []string
}

func (p program) find(ctx context.Context) (findings, error) {
	help, asked := "", p.name
	for i, args := range p.helps {
		said, err := output(ctx, p.name, args...)
		if said == "" {
			return nil, fmt.Errorf("%s %s says nothing: %w", p.name, strings.Join(args, " "), err)
		}
		help += said + "\n"
		if i > 0 {
			asked += ","
		}
		asked += " " + strings.Join(args, " ")
	}
	found := findings{}
	for _, fact := range Facts {
		pattern, ok := p.verbs[fact]
		at := ""
		if ok {
			at = strings.TrimSpace(regexp.MustCompile(pattern).FindString(help))
		}
		if at != "" {
			found[fact] = shown{true, fmt.Sprintf("%s lists %q", asked, at)}
		} else {
			found[fact] = shown{false, asked + " lists no such verb"}
		}
	}
	said, _ := output(ctx, p.name, p.fail...) // it is to fail
	found[Errors] = shown{isJSON(said), fmt.Sprintf("%s %s says %.200q", p.name, strings.Join(p.fail, " "), said)}
	return found, nil
}

const (
	// callTime bounds a call of a system that hangs; a busy host takes its time to start a
	// program.
	callTime  = time.Minute
	maxOutput = 256 << 10
)

// output is what a program says on both streams.
func output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	to := &limited{to: &said}
	cmd.Stdout, cmd.Stderr = to, to
	err := cmd.Run()
	return said.String(), err
}

// limited drops what is too much.
type limited struct{ to *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.to.Write(p[:min(len(p), maxOutput-l.to.Len())])
	return len(p), nil
}

// lxc has a program for each verb.
func lxc(ctx context.Context) (findings, error) {
	found := findings{}
	for _, fact := range Facts {
		found[fact] = shown{false, "LXC has no program for it"}
	}
	for fact, name := range map[string]string{Exec: "lxc-attach", Snapshot: "lxc-snapshot", Events: "lxc-monitor", Policy: "lxc-cgroup", Fork: "lxc-fork", Files: "lxc-file"} {
		said, err := output(ctx, name, "--help")
		found[fact] = shown{err == nil, fmt.Sprintf("%s --help: %.80q, error: %v", name, firstLine(said), err)}
	}
	said, err := output(ctx, "lxc-info", "-n", "no-such-container")
	found[Errors] = shown{isJSON(said), fmt.Sprintf("lxc-info of one that is not there says %.200q, error: %v", said, err)}
	return found, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// native shows the facts of a system by its own interface. That it makes sandboxes is shown
// by the one of its driver, which uses that interface.
func native(ctx context.Context, s lab.System, byAether findings) (findings, error) {
	if slices.Contains(aethers, s.Name) {
		return byAether, nil
	}
	call, ok := natives[s.Name]
	if !ok {
		return nil, fmt.Errorf("nothing here calls the own interface of %s", s.Name)
	}
	found, err := call(ctx)
	if err != nil {
		return nil, err
	}
	made := byAether[Create]
	found[Create] = shown{made.holds, "its driver uses it: " + made.proof}
	return found, nil
}

func missing(found findings) []string {
	return slices.DeleteFunc(slices.Clone(Facts), func(fact string) bool { return found[fact].proof != "" })
}
