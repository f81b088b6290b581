package gvisor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"aether/driver/command"
	"aether/sandbox"
)

// stateDir is where runsc keeps what it knows of a sandbox, on the stage.
func stateDir(stage string) string { return filepath.Join(stage, "state") }

// flags are those of every sandbox. Its cgroup is there already, and runsc sees
// none to change. What is written is kept in a file on the stage, which is memory, and
// not among the memory of processes: so it can be kept alone.
func (p Platform) flags(s command.Stage, spec sandbox.Spec) []string {
	network := "none"
	switch {
	case spec.Network.Mode == sandbox.HostNetwork:
		network = "host"
	case spec.Network.Mode.Filtered():
		network = "sandbox"
	}
	return []string{s.Program, "--root", stateDir(s.Dir), "--platform", string(p), "--network", network, "--ignore-cgroups",
		"--host-settings=ignore", "--gso=false", "--software-gso=false", fmt.Sprintf("--overlay2=root:dir=%s,size=%d", s.Shared, rootBytes(spec.Limits))}
}

// run starts a sandbox.
func (p Platform) run(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	return p.command(s, spec, spec.ID, "run")
}

// restore starts one that goes on from the memory of a snapshot.
func (p Platform) restore(s command.Stage, spec sandbox.Spec, hostname string) (command.Command, error) {
	return p.from(memory, s, spec, hostname, "restore", "--image-path")
}

// runFiles starts one with the files of a snapshot.
func (p Platform) runFiles(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	return p.from(files, s, spec, spec.ID, "run", "--fs-restore-image-path")
}

// from is a command that reads a part of a snapshot, whose files are shown on the stage
// in their order.
func (p Platform) from(part part, s command.Stage, spec sandbox.Spec, hostname, verb, option string) (command.Command, error) {
	prepare := []string{"mkdir image"}
	for i, name := range part.names {
		prepare = append(prepare, fmt.Sprintf("ln -s %s image/%s", s.Shown[i], name))
	}
	c, err := p.command(s, spec, hostname, verb, option, filepath.Join(s.Dir, "image"))
	c.Prepare = strings.Join(prepare, "\n")
	return c, err
}

func (p Platform) command(s command.Stage, spec sandbox.Spec, hostname string, verb ...string) (command.Command, error) {
	text, err := json.Marshal(config(s, spec, hostname))
	args := append(append(p.flags(s, spec), verb...), "--bundle", s.Dir, spec.ID)
	return command.Command{Args: args, Config: text}, err
}
