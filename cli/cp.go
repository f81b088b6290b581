package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

func copyCommand() *cobra.Command {
	user := ""
	cmd := &cobra.Command{
		Use:   "cp [flags] SOURCE DESTINATION",
		Short: "Copy files and directories into and out of a sandbox",
		Long: `Copy a file or a directory into a sandbox or out of it. ID:PATH is a path in a sandbox, from its
root; write ./a:b for a file of this host whose name has a colon. A destination that is a
directory gets the source in it; one that does not exist becomes the source's copy. Modes, times
and links are kept. Nothing that a sandbox gives is written outside of the destination: devices,
pipes and sockets are left out, and so are bits by which a program gets rights.`,
		Example: `  aether cp ./src 7k2m9x0r4c8v1b5n3q6w:/srv
  aether cp 7k2m9x0r4c8v1b5n3q6w:/srv/report.html .
  aether cp --user nobody data.csv 7k2m9x0r4c8v1b5n3q6w:/tmp/`,
		Args: exactly(2, "a source and a destination"), ValidArgsFunction: completeCopy,
	}
	cmd.Flags().StringVarP(&user, "user", "u", "", "user of the sandbox to read or write as")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, to := placeOf(args[0]), placeOf(args[1])
		if (from.id == "") == (to.id == "") {
			return &sandbox.Error{Class: sandbox.Invalid, Field: "arguments", Reason: "one of both must be ID:PATH and the other a path of this host", Remedy: "usage: aether " + cmd.Use}
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			c := &copying{cmd: cmd, inside: client.GuestOf(from.id+to.id, guest.ClientOptions{User: user})}
			defer c.explain()
			if from.id == "" {
				return ofSandbox(c.in(ctx, from.path, to.path))
			}
			return ofSandbox(c.out(ctx, from.path, to.path))
		})
	}
	return cmd
}

// place is one end of a copy: a path of a sandbox if there is an id.
type place struct{ id, path string }

func placeOf(arg string) place {
	id, inside, ok := strings.Cut(arg, ":")
	if !ok || !sandbox.IsName(id, 64) {
		return place{path: arg}
	}
	return place{id, inside}
}

// completeCopy offers ids beside the files that the shell offers.
func completeCopy(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) >= 2 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if typed == "" || strings.ContainsAny(typed, "/.:") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	offer := beginning(typed, sandboxCompletions(cmd, []engine.State{engine.Running, engine.Paused}))
	if len(offer) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for i := range offer {
		id, about, _ := strings.Cut(offer[i], "\t")
		offer[i] = cobra.CompletionWithDesc(id+":", about)
	}
	return offer, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// copying is one copy. What runs inside is the sandbox's own tar: its words are hostile,
// and what it does to its sandbox is the sandbox's business.
type copying struct {
	cmd    *cobra.Command
	inside *guest.Client
	// leftOut counts what is neither a file, a directory nor a link.
	leftOut int
}

func (c *copying) explain() {
	if c.leftOut > 0 {
		printError(c.cmd, "aether: left out: %d (devices, pipes and sockets are not copied)", c.leftOut)
	}
}

// rooted is a path of a sandbox, from its root.
func rooted(name string) string { return path.Clean("/" + name) }

// stat describes what a path leads to. Links of the last part are followed; the name
// stays. Errors: NotFound.
func (c *copying) stat(ctx context.Context, name string) (at string, info *pb.EntryInfo, err error) {
	info, err = c.inside.Stat(ctx, name)
	if err != nil {
		return "", nil, err
	}
	if target := info.GetSymlinkTarget(); target != "" && info.GetType() != pb.FileType_FILE_TYPE_UNSPECIFIED {
		return rooted(target), info, nil
	}
	return name, info, nil
}

func isDirectory(info *pb.EntryInfo) bool {
	return info.GetType() == pb.FileType_FILE_TYPE_DIRECTORY
}

// errNoTar says that a sandbox has no tar, by which trees are copied.
var errNoTar = &sandbox.Error{Class: sandbox.Unsupported, Op: "copy", Reason: "the sandbox has no program tar", Remedy: "copy its files one by one, or use an image that has it"}

// tar starts the sandbox's tar. Errors: errNoTar.
func (c *copying) tar(ctx context.Context, cmd guest.Cmd) (*guest.Running, error) {
	cmd.Path = "tar"
	running, err := c.inside.Start(ctx, cmd)
	var refused *sandbox.Error
	if errors.As(err, &refused) && refused.Op == startOp && refused.Class == sandbox.NotFound && ofSandbox(err) == err {
		return nil, errNoTar
	}
	return running, err
}

// maxComplaint bounds what is kept of what tar says.
const maxComplaint = 4 << 10

// tarError is how tar failed, in its own words.
func tarError(status guest.Status, said *capture) error {
	if status == (guest.Status{}) {
		return nil
	}
	text := strings.TrimSpace(string(said.bytes[:min(len(said.bytes), maxComplaint)]))
	return &sandbox.Error{Class: sandbox.Conflict, Op: "copy", Reason: "the sandbox's tar failed: " + text}
}

// abandon ends a tar that nobody waits for any more.
func abandon(running *guest.Running) {
	ctx, cancel := context.WithTimeout(context.Background(), signalTime)
	defer cancel()
	_ = running.Signal(ctx, syscall.SIGKILL) // which fails for one that has ended
}
