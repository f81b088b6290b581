package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"aether/internal/host/storedir"
	labrun "aether/lab/run"
	"aether/sandbox"
)

func labCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use: "lab", Short: "Measure the isolation systems on the five axes, on this host",
		Long: "Measure every isolation system that runs here on the axes of the profiles, on the same scale from 0 to 1, with\n" +
			"every sample that a score rests on. A run is a directory; RUN is its path, or the name of one that was made\n" +
			"without --out, or nothing for the last of those.",
		Example: "  aether lab run --quick\n  aether lab show --why\n  aether lab compare BEFORE AFTER\n  aether rank --measured last",
		Args:    knownSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(labRunCommand(drivers), labShowCommand(), labCompareCommand(), labCheckCommand())
	return cmd
}

// lastRun names the newest run that was made without --out.
const lastRun = "last"

// labHome is where runs are kept that are given no other place.
func labHome() string { return filepath.Join(storedir.Lasting(), "lab") }

// findRun is the directory of a run by its path or name. Errors: NotFound.
func findRun(name string) (string, error) {
	if name == "" || name == lastRun {
		return newestRun()
	}
	for _, dir := range []string{name, filepath.Join(labHome(), filepath.Base(name))} {
		if _, err := os.Stat(filepath.Join(dir, labrun.RecordsFile)); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", &sandbox.Error{Class: sandbox.NotFound, Field: "run", Reason: "there is no run " + name, Remedy: "name its directory, or one of those in " + labHome()}
}

// newestRun is the last by its name, which is a time.
func newestRun() (string, error) {
	entries, err := os.ReadDir(labHome())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range slices.Backward(entries) {
		dir := filepath.Join(labHome(), e.Name())
		if _, err := os.Stat(filepath.Join(dir, labrun.RecordsFile)); err == nil {
			return dir, nil
		}
	}
	return "", &sandbox.Error{Class: sandbox.NotFound, Field: "run", Reason: "no run was made yet", Remedy: "make one with: aether lab run --quick"}
}

// loadRun reads a run by its path or name.
func loadRun(name string) (labrun.Run, error) {
	dir, err := findRun(name)
	if err != nil {
		return labrun.Run{}, err
	}
	return labrun.Load(dir)
}

// splitList reads a list of names.
func splitList(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(name string) bool { return name == "" })
}

// shortOf is the title of an axis in tables.
func shortOf(axis string) string {
	return cmp.Or(map[string]string{"start-latency": "start", "snapshotting": "snapshot", "agent-control": "control"}[axis], axis)
}
