package main

import "slices"

// Ways are the standings from which a user starts the programs.
const (
	wayRoot      = "root"      // root, from a service
	wayUser      = "user"      // an ordinary user, in a group that is not theirs
	wayDelegated = "delegated" // an ordinary user with a systemd and a group of their own
	wayDocker    = "docker"    // root of a container, as Docker makes it by default
)

// Steps are what is checked on each way, in this order.
const (
	stepFirst       = "first"       // the first commands of the README
	stepDoctor      = "doctor"      // what the host offers, and the exit status
	stepLimits      = "limits"      // memory and processes
	stepTemplate    = "template"    // prepare, fork twice, show, remove
	stepService     = "service"     // the daemon under systemd: restarted, killed, stopped
	stepOlder       = "older"       // ways around what older kernels do not tell
	stepConformance = "conformance" // the suite of all drivers
	stepEscape      = "escape"      // attacks from inside
	stepFork        = "fork"        // forks, checkpoints, snapshots
	stepOwn         = "own"         // every other test of the folders that meet the kernel
	stepRemedy      = "remedy"      // the options that the refusal in a container names
	stepLeaks       = "leaks"       // what all of them left on the host
	// stepBench measures cells beside bwrap there. It takes longer than all others
	// and is run only when it is named.
	stepBench = "bench"
	// stepCrowd measures cells beside thousands of others, in a larger machine. It too is
	// run only when it is named.
	stepCrowd = "crowd"
)

var (
	ways  = []string{wayRoot, wayUser, wayDelegated, wayDocker}
	steps = []string{stepFirst, stepDoctor, stepLimits, stepTemplate, stepService, stepOlder, stepConformance, stepEscape, stepFork, stepOwn, stepRemedy, stepLeaks}
	// namedSteps are run only when they are named.
	namedSteps = []string{stepBench, stepCrowd}
	// brief is what fits into a few minutes on two processors, debootstrap and boot
	// included.
	briefWays  = []string{wayRoot, wayUser}
	briefSteps = []string{stepFirst, stepDoctor, stepLimits, stepTemplate, stepService, stepOlder, stepConformance, stepLeaks}
)

// job is one step on one way, as the machine is told.
type job struct {
	Way     string `json:"way"`
	Step    string `json:"step"`
	Refusal string `json:"refusal,omitempty"` // the pattern it must be refused with
}

// plan divides what was asked for into what the machine has to do and what is
// known to be skipped.
func plan(h host, onlyWays, onlySteps []string) (jobs []job, skipped []result) {
	for _, way := range ways {
		if !slices.Contains(onlyWays, way) {
			continue
		}
		for _, step := range append(slices.Clone(steps), namedSteps...) {
			if !slices.Contains(onlySteps, step) || step == stepRemedy && way != wayDocker || step == stepService && way != wayRoot {
				continue
			}
			j := job{Way: way, Step: step, Refusal: h.ways[way].refusal(step)}
			if reason := h.ways[way].skips(step); reason != "" {
				skipped = append(skipped, result{Host: h.name, Way: way, Step: step, Verdict: skip, Reason: reason})
				continue
			}
			jobs = append(jobs, j)
		}
	}
	return jobs, skipped
}

// skips is why a step makes no sense, or empty. Where the engine is refused, its
// tests would only repeat that; what a refusal leaves behind is looked at.
func (e expectation) skips(step string) string {
	_, named := e.refuses[step]
	switch {
	case e.absent != "":
		return e.absent
	case e.refuses[everything] == "" || named:
		return ""
	case suites[step] != nil || slices.Contains(namedSteps, step):
		return "the engine cannot run on this way"
	}
	return ""
}
