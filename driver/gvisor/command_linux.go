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
// none to change; what is written is kept in memory, where checkpoints find it.
func (p Platform) flags(s command.Stage, spec sandbox.Spec) []string {
	network := "none"
	if spec.Network.Mode == sandbox.HostNetwork {
		network = "host"
	}
	return []string{s.Program, "--root", stateDir(s.Dir), "--platform", string(p), "--network", network, "--ignore-cgroups",
		"--host-settings=ignore", fmt.Sprintf("--overlay2=root:memory,size=%d", rootBytes(spec.Limits))}
}

// run starts a sandbox.
func (p Platform) run(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	text, err := json.Marshal(config(s, spec, spec.ID))
	return command.Command{Args: append(p.flags(s, spec), "run", "--bundle", s.Dir, spec.ID), Config: text}, err
}

// restore starts one from the files of a checkpoint, which are shown on the stage
// in the order of checkpointFiles.
func (p Platform) restore(s command.Stage, spec sandbox.Spec, hostname string) (command.Command, error) {
	text, err := json.Marshal(config(s, spec, hostname))
	prepare := []string{"mkdir image"}
	for i, name := range checkpointFiles {
		prepare = append(prepare, fmt.Sprintf("ln -s %s image/%s", s.Shown[i], name))
	}
	args := append(p.flags(s, spec), "restore", "--bundle", s.Dir, "--image-path", filepath.Join(s.Dir, "image"), spec.ID)
	return command.Command{Args: args, Config: text, Prepare: strings.Join(prepare, "\n")}, err
}
