package main

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"aether/guest/pid1"
	"aether/sandbox"
)

func main() {
	if pid1.IsMachine() {
		fmt.Fprintln(os.Stderr, "aether-guest:", pid1.RunMachine())
		os.Exit(1)
	}
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	config, err := parse(args, stderr)
	if err == nil {
		err = pid1.Run(config)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "aether-guest:", err)
	if sandbox.ClassOf(err) == sandbox.Invalid {
		return 2
	}
	return 1
}

func parse(args []string, stderr io.Writer) (config pid1.Config, err error) {
	flags := flag.NewFlagSet("aether-guest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&config.Channel, "channel", "stdio", "how the host reaches this process: stdio, unix:/path, virtio:NAME or vsock:PORT")
	flags.StringVar(&config.User, "user", "", "who runs commands that name nobody (root)")
	flags.StringVar(&config.WorkDir, "workdir", "", "where commands start that name no directory (the user's home)")
	flags.Int64Var(&config.GuardedMemory, "guarded-memory", 0, "how many `bytes` all commands may use, where the kernel kills nobody for it")
	flags.Func("filter", "a system call filter in `base64`, as the kernel reads it, for this process and all that it starts", func(text string) (err error) {
		config.Filter, err = base64.StdEncoding.DecodeString(text)
		return err
	})
	flags.Func("config", "a `file` with the configuration as JSON; flags after it win", func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &config)
	})
	if err := flags.Parse(args); err != nil {
		return config, sandbox.Invalidf("flags", "%v", err)
	}
	if flags.NArg() > 0 {
		return config, sandbox.Invalidf("flags", "%.80q is no flag", flags.Arg(0))
	}
	return config, nil
}
