package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"aether/image/initramfs"
)

// suiteName is the test that drivers run the suite of all drivers in.
const suiteName = "TestConformance"

// heavy are groups of that suite by which one boot has enough to do: an emulated
// machine that has made some twenty others may stand still.
var heavy = []string{
	"leaks|killed", "commands", "streams|terminals", "files", "limits", "isolation", "lifecycle", "together|pause", "snapshot", "fork",
}

// part is what one boot of the lab runs.
type part struct {
	name string
	pkg  string   // whose test binary is run
	run  string   // the pattern of tests, or empty for all
	skip []string // patterns of tests that are not run
}

// program is where the lab has the test binary of a package.
func program(pkg string) string { return filepath.Join(labDir, filepath.Base(pkg)+".test") }

// parts together run every test of the driver once, whatever its groups are called:
// the first runs all that no other one names. The last may be of the whole program.
func (o options) parts() []part {
	switch {
	case o.compare:
		return []part{{"the comparison", measuring, "^" + compareTest + "$", nil}}
	case o.crowds > 0:
		return []part{{"crowds", measuring, "^" + crowdsTest + "$", nil}}
	case o.tests != "":
		return []part{{o.tests, o.folder(), o.tests, nil}}
	}
	whole := part{"the whole program", wholePackage, "^" + wholeTest + "$", nil}
	if o.whole {
		return []part{whole}
	}
	list := []part{{"all else", o.folder(), "", []string{group(strings.Join(heavy, "|"))}}}
	for _, names := range heavy {
		list = append(list, part{names, o.folder(), group(names), nil})
	}
	if o.driver == wholeDriver {
		list = append(list, whole)
	}
	return list
}

// group is the pattern of groups of the suite.
func group(names string) string { return "^" + suiteName + "$/^(" + names + ")$" }

// run boots the lab for each part, and ends with what became of each. A part that
// fails does not keep the others from running.
func (l *lab) run(ctx context.Context, stdout, stderr io.Writer) (code int, err error) {
	var results []string
	for _, p := range l.parts() {
		fmt.Fprintf(stderr, "kvmtest: boot for %s\n", p.name)
		began := time.Now()
		result, failed := l.runPart(ctx, p, stdout, stderr)
		if failed == nil && result.code == 0 && l.report != "" {
			failed = result.keep(l.report)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, failed))
			if result.code = 1; errors.Is(failed, errStill) {
				result.code = stillCode
			}
		}
		results = append(results, fmt.Sprintf("%-28s %v, in %v", p.name, result, time.Since(began).Round(time.Second)))
		code = worse(code, result.code)
		if ctx.Err() != nil {
			break
		}
	}
	for _, line := range results {
		fmt.Fprintln(stderr, "kvmtest:", line)
	}
	return code, err
}

// stillCode is the exit code where nothing failed, but the lab stood still at every boot for
// a part, which is the emulator's doing: nothing is known of that part.
const stillCode = 75 // EX_TEMPFAIL

// worse is the code that says more: a failure before a part of which nothing is known.
func worse(one, other int) int {
	if one == stillCode && other != 0 || one == 0 {
		return other
	}
	if other == stillCode {
		return one
	}
	return max(one, other)
}

// runPart boots once more where the lab stands still, which is the emulator's doing and says
// nothing of the tests, and goes on with those that have not ended. It gives up after two boots
// in a row in which none did.
func (l *lab) runPart(ctx context.Context, p part, stdout, stderr io.Writer) (total result, err error) {
	for idle := 0; ; {
		archive, err := l.archive(p)
		if err != nil {
			return total, err
		}
		r, err := l.boot(ctx, archive, stdout, stderr)
		total = total.then(r)
		if idle++; len(r.ended) > 0 {
			idle = 0
		}
		if !errors.Is(err, errStill) || idle == 2 {
			return total, err
		}
		fmt.Fprintf(stderr, "kvmtest: %v; boot for what is left of %s\n", err, p.name)
		p = p.without(r.ended)
	}
}

// without is the part without tests that are named, in the order in which they ended: of
// patterns only the first counts that fits a test or one below it, so those around others
// come before them.
func (p part) without(names []string) part {
	for _, name := range names {
		elements := strings.Split(name, "/")
		for i, e := range elements {
			elements[i] = "^" + regexp.QuoteMeta(e) + "$"
		}
		p.skip = slices.Concat([]string{strings.Join(elements, "/")}, p.skip)
	}
	return p
}

// arguments are those of the test binary.
func (p part) arguments() (list []string) {
	if p.run != "" {
		list = append(list, "-test.run", p.run)
	}
	if len(p.skip) > 0 {
		list = append(list, "-test.skip", strings.Join(p.skip, "|"))
	}
	return list
}

// archive writes the initramfs that runs one part.
func (l *lab) archive(p part) (string, error) {
	text, err := json.Marshal(l.config(p))
	if err != nil {
		return "", err
	}
	own, err := initramfs.Config(configFile, text)
	if err != nil {
		return "", err
	}
	name := filepath.Join(l.dir, "initramfs")
	return name, os.WriteFile(name, slices.Concat(l.guest.Archive, own), 0o600)
}

func (l *lab) config(p part) config {
	// One test at a time: machines in an emulated machine are slow enough alone. Each says how it
	// ended when it has, and not with those around it: what comes after may stand still.
	c := config{Modules: l.guest.Modules, Command: []string{program(p.pkg), "-test.v=test2json", "-test.parallel", "1", "-test.timeout", l.limit.String()}}
	c.Command = append(c.Command, p.arguments()...)
	c.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp",
		"AETHER_GUEST=" + guestPath,
		"AETHER_NET=" + netPath,
		"AETHER_VMM=" + monitorPath,
		"AETHER_DRIVERTEST_NEIGHBOUR=" + neighbour,
		"AETHER_KERNEL=" + kernelRoot + "/boot/" + filepath.Base(l.kernel.Image),
		"AETHER_TEST_IMAGE=" + imageDir,
		"AETHER_TEST_PACE=40",
	}
	if l.measures() {
		c.Env = append(c.Env, fmt.Sprintf("AETHER_TEST_ROUNDS=%d", l.rounds), fmt.Sprintf("AETHER_TEST_CHILDREN=%d", l.children),
			fmt.Sprintf("AETHER_TEST_CROWDS=%d", l.crowds))
	}
	if l.binary != "" {
		c.Env = append(c.Env, "AETHER_TEST_BINARY="+filepath.Join(binaryDir, filepath.Base(l.binary)))
	}
	return c
}
