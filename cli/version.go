package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker: -X aether/cli.version=1.2.3 -X aether/cli.commit=HASH.
var version, commit string

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show what this build is",
		Long:  "Show the version, the commit, the Go version and the platform of this build.",
		Example: `  aether version
  aether version --json`,
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asJSON {
			return printJSON(cmd, readBuild())
		}
		return printText(cmd, readBuild().String())
	}
	return cmd
}

// build is the JSON answer. What is not known about the commit is absent.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// readBuild prefers what the linker was told to what the Go command stamped.
func readBuild() build {
	b := build{Version: version, Commit: commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.fill(info)
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "dev"
	}
	return b
}

func (b *build) fill(info *debug.BuildInfo) {
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Commit != "" {
		return
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
}

func (b build) String() string {
	return fmt.Sprintf("aether %s%s %s %s/%s", b.Version, b.origin(), b.Go, b.OS, b.Arch)
}

func (b build) origin() string {
	switch {
	case b.Commit == "":
		return ""
	case b.Modified:
		return " (commit " + b.Commit + ", modified)"
	}
	return " (commit " + b.Commit + ")"
}
