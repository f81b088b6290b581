package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"aether/sandbox"
)

func main() {
	if os.Getpid() == 1 {
		inside() // the lab's own init is this very program
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kvmtest:", err)
	}
	os.Exit(code)
}

// options are what is run in the lab, and how.
type options struct {
	driver string
	binary string
	jailer string
	tests  string
	// whole runs the test of the whole program and no other.
	whole bool
	// compare measures aethervm beside binary, instead of a driver's tests. So many crowds of
	// children are measured with it, or alone.
	compare                  bool
	rounds, children, crowds int
	// report is the file for what a comparison finds, as JSON.
	report string
	kernel string
	state  string
	memory int
	limit  time.Duration
	// silence is how long the lab may say nothing.
	silence time.Duration
}

// packages are the folders of the drivers that need KVM, by canonical name; vmm is
// what some of them share, with a monitor of its own.
var packages = map[string]string{
	"qemu-kvm":         "qemu",
	"vmm":              "vmm",
	"firecracker":      "firecracker",
	"cloud-hypervisor": "cloudhypervisor",
	"aethervm":         "aethervm",
	"kata":             "kata",
}

// programs are what drivers run that distributions package; the others' are
// handed in. Beside aethervm there is a QEMU for it to be chosen before.
var programs = map[string][]string{"qemu-kvm": {"qemu-system-x86_64"}, "vmm": {"qemu-system-x86_64"}, "aethervm": {"mkfs.ext4", "qemu-system-x86_64"}}

// firmware is what such programs open at run time.
var firmware = map[string][]string{"qemu-kvm": {"/usr/share/qemu"}, "vmm": {"/usr/share/qemu"}, "aethervm": {"/usr/share/qemu"}}

// measuring is the package of the tests that measure.
const (
	measuring   = "./lab/monitor"
	compareTest = "TestBeside"
	crowdsTest  = "TestCrowds"
	maxCount    = 1000
)

// wholeTest is of the whole program on machines of one driver, and is in the program's package.
const (
	wholeDriver  = "aethervm"
	wholePackage = "./cmd/aether"
	wholeTest    = "TestAethervm"
)

func (o options) measures() bool { return o.compare || o.crowds > 0 }

// folder is the package of the driver.
func (o options) folder() string { return "./driver/" + packages[o.driver] }

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("kvmtest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.driver, "driver", "qemu-kvm", "the `name` of the driver whose tests run in the lab")
	flags.StringVar(&o.binary, "binary", "", "a `program` to have in PATH there, as a release of the driver's system")
	flags.StringVar(&o.jailer, "jailer", "", "the `program` that confines Firecracker, to have beside it")
	flags.StringVar(&o.tests, "run", "", "only the tests that match this `pattern`, as go test -run, in one boot")
	flags.BoolVar(&o.whole, "whole", false, "only the test of the whole program on machines of aethervm")
	flags.BoolVar(&o.compare, "compare", false, "measure aethervm beside the Firecracker that -binary names, instead of running a driver's tests")
	flags.IntVar(&o.rounds, "rounds", 5, "with -compare, how often each way is measured")
	flags.IntVar(&o.children, "children", 100, "how `many` are forked by one call, with -crowds")
	flags.IntVar(&o.crowds, "crowds", 0, "how often a machine of aethervm is forked into many: with -compare, or instead of running a driver's tests")
	flags.StringVar(&o.report, "json", "", "with -compare, the `file` for its figures, as kvm-lab.json in the directory of a run of the lab")
	flags.StringVar(&o.kernel, "kernel", "", "the kernel `file` of the lab and of the machines in it; by default the one `aether kernel install` fetches")
	flags.StringVar(&o.state, "state", "", "the `directory` to keep the kernel and disks in, by default in the user's cache")
	flags.IntVar(&o.memory, "memory", 3072, "the lab's memory in `MiB`")
	flags.DurationVar(&o.limit, "timeout", 20*time.Minute, "how long each boot may take")
	flags.DurationVar(&o.silence, "silence", 3*time.Minute, "after how long without a word a boot stands still, and is made once more")
	if err := flags.Parse(args); err != nil {
		return o, sandbox.Invalidf("flags", "%v", err)
	}
	return o, o.validate(flags.Args())
}

func (o options) validate(rest []string) error {
	if len(rest) > 0 {
		return sandbox.Invalidf("flags", "%.80q is no flag", rest[0])
	}
	if packages[o.driver] == "" {
		var known []string
		for name := range packages {
			known = append(known, name)
		}
		return sandbox.Invalidf("driver", "%.80q is none of %s", o.driver, strings.Join(known, ", "))
	}
	for field, program := range map[string]string{"binary": o.binary, "jailer": o.jailer} {
		if info, err := os.Stat(program); program != "" && (err != nil || !info.Mode().IsRegular()) {
			return sandbox.Invalidf(field, "%s is no file", program)
		}
	}
	if o.jailer != "" && (o.driver != "firecracker" || o.binary == "" || filepath.Base(o.binary) == jailerName) {
		return sandbox.Invalidf("jailer", "it confines the Firecracker that -driver and -binary name")
	}
	if o.compare && o.binary == "" {
		return sandbox.Invalidf("compare", "it is beside the Firecracker that -binary names")
	}
	if o.report != "" && !o.compare {
		return sandbox.Invalidf("json", "it is for the figures of -compare")
	}
	if o.measures() && o.tests != "" {
		return sandbox.Invalidf("run", "no tests are run where it is measured")
	}
	if o.whole && (o.driver != wholeDriver || o.tests != "" || o.measures()) {
		return sandbox.Invalidf("whole", "it is one test, of machines of %s", wholeDriver)
	}
	for field, n := range map[string]int{"rounds": o.rounds, "children": o.children, "crowds": o.crowds} {
		if n < 0 || n > maxCount {
			return sandbox.Invalidf(field, "%d is not between 0 and %d", n, maxCount)
		}
	}
	if o.memory < 512 {
		return sandbox.Invalidf("memory", "%d MiB is too little for machines in a machine", o.memory)
	}
	return nil
}

// run gives the exit code of the tests.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parse(args, stderr)
	if err != nil {
		return 2, err
	}
	lab, err := build(ctx, o, stderr)
	if err != nil {
		return 1, err
	}
	defer lab.close()
	return lab.run(ctx, stdout, stderr)
}
