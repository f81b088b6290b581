package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// termFlags are the flags that say how long a sandbox lives and by what it is found.
type termFlags struct {
	timeout          time.Duration
	onTimeout, key   string
	keep, autoResume bool
	metadata         []string
}

func (f *termFlags) register(cmd *cobra.Command) {
	f.registerChange(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.keep, "keep", false, "have it outlive the daemon: paused when that is stopped, resumed by the next")
	flags.BoolVar(&f.autoResume, "auto-resume", false, "resume it when it is used while it is paused")
	flags.StringVar(&f.key, "idempotency-key", "", "the same key gives the same answer, however often the command is run")
}

// registerChange registers those that can be changed later.
func (f *termFlags) registerChange(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.timeout, "timeout", 0, "its time to live from now on, such as 10m; 0 is no end")
	flags.StringVar(&f.onTimeout, "on-timeout", "", "what happens then: kill (the default) or pause")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "K=V to find it by; repeatable")
	fixed := cobra.FixedCompletions([]string{string(engine.ThenKill), string(engine.ThenPause)}, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("on-timeout", fixed); err != nil {
		panic(err) // the flag was registered just above
	}
}

func (f *termFlags) validate() error {
	switch engine.Then(f.onTimeout) {
	case "", engine.ThenKill, engine.ThenPause:
	default:
		return unknownName("--on-timeout", f.onTimeout, []string{string(engine.ThenKill), string(engine.ThenPause)})
	}
	if f.timeout < 0 {
		return sandbox.Invalidf("--timeout", "%v is negative", f.timeout)
	}
	return nil
}

// parseMetadata reads a list of K=V.
func parseMetadata(list []string) (map[string]string, error) {
	metadata := map[string]string{}
	for _, entry := range list {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" {
			return nil, sandbox.Invalidf("--metadata", "%.80q is not K=V", entry)
		}
		metadata[key] = value
	}
	return metadata, nil
}

// someIDs wants one id or more.
func someIDs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return exactly(1, "one id or more")(cmd, args)
	}
	return nil
}

// forEach does something for every id, and goes on after one for which it fails.
func forEach(ids []string, do func(id string) error) error {
	var errs []error
	for _, id := range ids {
		errs = append(errs, do(id))
	}
	return errors.Join(errs...)
}

// completeIDs offers the ids of sandboxes in the states, of all if none is named, for
// the first n arguments.
func completeIDs(n int, states ...engine.State) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return beginning(typed, sandboxCompletions(cmd, states)), cobra.ShellCompDirectiveNoFileComp
	}
}

// manyIDs is how many arguments of a command may be ids that takes any number.
const manyIDs = 1 << 20

func sandboxCompletions(cmd *cobra.Command, states []engine.State) []cobra.Completion {
	return askForCompletion(cmd, func(ctx context.Context, client *rest.Client) (offer []cobra.Completion, err error) {
		page, err := client.List(ctx, engine.Query{States: states})
		for _, s := range page.Sandboxes {
			offer = append(offer, cobra.CompletionWithDesc(s.ID, visible(string(s.State)+" "+s.Driver)))
		}
		return offer, err
	})
}

// absoluteImage is an image for a daemon, whose directory is another than ours.
func absoluteImage(image string) (string, error) {
	if image != "." && image != ".." && !strings.HasPrefix(image, "./") && !strings.HasPrefix(image, "../") {
		return image, nil
	}
	return filepath.Abs(image)
}
