package cli

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"aether/sandbox"
)

// Exit statuses of run besides the command's own, as other launchers have them.
const (
	statusTimeout    = 124
	statusFailed     = 125 // the sandbox, not the command
	statusDenied     = 126
	statusNotFound   = 127
	statusSignalBase = 128
)

// runFlags are the flags of run, as typed.
type runFlags struct {
	isolation, driver, image, memory, disk string
	diskReadRate, diskWriteRate            string
	workdir, user, template, code          string
	cpus                                   float64
	pids                                   int64
	env, mounts                            []string
	explain, onDisk                        bool
	publish                                []string
	forwards                               []forward
	networkFlags
	streamFlags
}

func runCommand(drivers *drivers) *cobra.Command {
	f := &runFlags{networkFlags: networkFlags{asks: true}}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a new sandbox",
		Long: "Run a command in a sandbox that is made for it and gone after it. Its output and exit status\n" +
			"are the command's own: 128+n if signal n ended it, 124 if its time was over, 127 if there is\n" +
			"no such command, 126 if it cannot be executed, and 125 if the sandbox could not be made.",
		Example: `  aether run -- python3 -c 'print(6*7)'
  aether run --memory 256M --cpus 0.5 --timeout 10s -- sh -c 'make test'
  aether run --mount .:/work:ro --workdir /work -- ls
  aether run -it -- bash
  aether run --isolation hardware -- uname -a
  aether run --explain -- true
  aether run --json -- true
  aether run --allow packages -- pip download six
  aether run --net ask -- ./install.sh
  aether run -p 8080:80 -- python3 -m http.server 80
  aether run --template py -c 'print(6*7)'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.template != "" {
				return nil // which may have a process of its own
			}
			return someCommand(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, drivers, args) },
	}
	f.register(cmd, drivers)
	return cmd
}

func someCommand(_ *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "command", Reason: "none is given", Remedy: "usage: aether run [flags] -- COMMAND [ARGUMENT...]"}
	}
	return nil
}

func (f *runFlags) register(cmd *cobra.Command, drivers *drivers) {
	f.registerSandbox(cmd, drivers)
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the command are the command's
	f.registerStreams(cmd)
	flags.BoolVar(&f.json, "json", false, "print exit, times, peak memory, driver and output as JSON")
	flags.StringArrayVarP(&f.publish, "publish", "p", nil, "have [ADDRESS:]LOCAL of this host reach a port inside, as 8080:80; repeatable")
	flags.BoolVar(&f.explain, "explain", false, "print every system call of the set-up instead of running")
	flags.StringVar(&f.template, "template", "", "fork this template instead of making a sandbox")
	flags.StringVarP(&f.code, "code", "c", "", "run this code in the template's interpreter")
	if err := cmd.RegisterFlagCompletionFunc("template", completeTemplates); err != nil {
		panic(err) // the flag was registered just above
	}
}

// registerSandbox registers the flags that say what a sandbox is.
func (f *runFlags) registerSandbox(cmd *cobra.Command, drivers *drivers) {
	flags := cmd.Flags()
	flags.StringVar(&f.isolation, "isolation", "", "the weakest boundary that will do: process, kernel or hardware")
	flags.StringVar(&f.driver, "driver", "", "the system to use, instead of the best that fits")
	flags.StringVar(&f.image, "image", sandbox.HostImage, "root file system: host, a directory, an OCI layout, a docker archive or a registry reference")
	flags.StringVar(&f.memory, "memory", "", "memory limit, such as 512M")
	flags.Float64Var(&f.cpus, "cpus", 0, "CPU limit, such as 1.5")
	flags.Int64Var(&f.pids, "pids", 0, "limit on processes")
	flags.StringVar(&f.disk, "disk", "", "limit on what is written, such as 1G")
	flags.StringVar(&f.diskReadRate, "disk-read-rate", "", "limit on bytes read from each disk in a second, such as 50M")
	flags.StringVar(&f.diskWriteRate, "disk-write-rate", "", "limit on bytes written to each disk in a second, such as 50M")
	flags.BoolVar(&f.onDisk, "on-disk", false, "keep what is written on disk instead of in memory (bounded without --disk only for root)")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set K=V for the command; repeatable")
	flags.StringArrayVar(&f.mounts, "mount", nil, "show SRC:DST[:ro|rw] of the host inside, read-only unless rw; repeatable")
	flags.StringVarP(&f.workdir, "workdir", "w", "", "directory to start in")
	flags.StringVarP(&f.user, "user", "u", "", "user of the image to run as")
	f.registerNetwork(cmd)
	f.complete(cmd, drivers)
}

func (f *runFlags) complete(cmd *cobra.Command, drivers *drivers) {
	for flag, values := range map[string][]string{"isolation": {"process", "kernel", "hardware"}, "driver": drivers.Names()} {
		completeFlag(cmd, flag, values)
	}
}

// completeFlag offers values for a flag that was registered.
func completeFlag(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// spec turns the flags into what the sandbox shall be.
func (f *runFlags) spec() (spec sandbox.Spec, err error) {
	if spec.Isolation, err = sandbox.ParseBoundary(f.isolation); err != nil {
		return spec, err
	}
	spec.Image = f.image
	spec.Limits.CPUs, spec.Limits.Processes, spec.Limits.DiskBacked = f.cpus, f.pids, f.onDisk
	for _, size := range []struct {
		flag, text string
		to         *int64
	}{{"--memory", f.memory, &spec.Limits.MemoryBytes}, {"--disk", f.disk, &spec.Limits.DiskBytes},
		{"--disk-read-rate", f.diskReadRate, &spec.Limits.DiskReadRate}, {"--disk-write-rate", f.diskWriteRate, &spec.Limits.DiskWriteRate}} {
		if size.text == "" {
			continue
		}
		if *size.to, err = parseBytes(size.flag, size.text); err != nil {
			return spec, err
		}
	}
	if spec.Command.Env, err = parseEnv(f.env); err != nil {
		return spec, err
	}
	if spec.Mounts, err = parseMounts(f.mounts); err != nil {
		return spec, err
	}
	spec.Command.WorkDir, spec.Command.User = f.workdir, f.user
	if spec.Network, err = f.network(); err != nil {
		return spec, err
	}
	if err := f.validateStreams(); err != nil {
		return spec, err
	}
	return spec, asFlag(spec.Validate())
}

func parseEnv(entries []string) (map[string]string, error) {
	env := map[string]string{}
	for _, entry := range entries {
		name, value, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, sandbox.Invalidf("--env", "%.60q is not K=V", entry)
		}
		env[name] = value
	}
	return env, nil
}

func parseMounts(entries []string) ([]sandbox.Mount, error) {
	var mounts []sandbox.Mount
	for _, entry := range entries {
		parts := strings.Split(entry, ":")
		writable := len(parts) == 3 && parts[2] == "rw"
		if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && !writable && parts[2] != "ro" {
			return nil, sandbox.Invalidf("--mount", "%.80q is not SRC:DST, SRC:DST:ro or SRC:DST:rw", entry)
		}
		source, err := filepath.Abs(parts[0])
		if err != nil {
			return nil, &sandbox.Error{Class: sandbox.Invalid, Field: "--mount", Err: err}
		}
		mounts = append(mounts, sandbox.Mount{Source: source, Target: parts[1], Writable: writable})
	}
	return mounts, nil
}

func (f *runFlags) run(cmd *cobra.Command, drivers *drivers, args []string) error {
	spec, err := f.spec()
	if err != nil {
		return err
	}
	if f.forwards, err = parseForwards("--publish", f.publish); err != nil {
		return err
	}
	if f.template != "" && f.net == askMode {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "--net", Reason: "a daemon holds the forks of a template, and does not tell what their networks denied", Remedy: "use egress"}
	}
	if f.template != "" {
		return launchError(cmd, f.runTemplate(cmd, spec, args))
	}
	if f.code != "" {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "-c", Reason: "it needs the interpreter of a template", Remedy: "use --template, or name the interpreter as the command"}
	}
	drivers.ForOne()
	candidates, err := drivers.candidates(f.driver, spec.Isolation)
	if err != nil {
		return launchError(cmd, err)
	}
	if f.explain {
		return explainSetUp(cmd, candidates.First(), spec, args)
	}
	if spec.Network.Mode == sandbox.HostNetwork {
		printError(cmd, "aether: warning: --net host gives the command the host's own network, with everything that listens there")
	}
	err = newSession(f, cmd).run(candidates, spec, args)
	return launchError(cmd, err)
}

func explainSetUp(cmd *cobra.Command, d sandbox.Driver, spec sandbox.Spec, args []string) error {
	e, ok := d.(sandbox.Explainer)
	if !ok {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "--explain", Reason: d.Info().Name + " cannot print how it sets a sandbox up"}
	}
	ctx, drawn := showProgress(cmd.Context(), cmd, false)
	var text bytes.Buffer // both may be the same terminal
	err := e.Explain(ctx, &text, spec, args)
	drawn()
	if text.Len() == 0 {
		return err
	}
	return errors.Join(err, printText(cmd, strings.TrimSuffix(text.String(), "\n")))
}

// launchError prints what failed and chooses the exit status: bad input stays 2,
// the rest is told from what a command may answer itself.
func launchError(cmd *cobra.Command, err error) error {
	var chosen exitCode
	if err == nil || errors.As(err, &chosen) {
		return err
	}
	status := report(cmd.ErrOrStderr(), err)
	var e *sandbox.Error
	switch class := sandbox.ClassOf(err); {
	case class == sandbox.Invalid:
		return exitCode(status)
	case errors.As(err, &e) && e.Op == startOp && class == sandbox.NotFound:
		return exitCode(statusNotFound)
	case errors.As(err, &e) && e.Op == startOp && class == sandbox.Denied:
		return exitCode(statusDenied)
	}
	return exitCode(statusFailed)
}

// startOp marks errors that are the command's and not the sandbox's.
const startOp = "start"
