package features

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"
	"aether/sandbox"
)

func surveyGroups(context.Context) Facility {
	f := Facility{Name: "cgroups", Cost: "a sandbox that is given such a limit is refused"}
	h, err := cgroup.Detect()
	if err != nil {
		return Judge(f, err)
	}
	var lack []string
	for _, c := range []cgroup.Controller{cgroup.Memory, cgroup.Pids, cgroup.CPU} {
		var why *sandbox.Error
		if errors.As(h.Missing(c), &why) {
			lack = append(lack, fmt.Sprintf("no limit on %v: %s", c, why.Reason))
			f.Remedy = why.Remedy
		}
	}
	switch f.Detail = fmt.Sprintf("%s, limits on %v", h.Layout, h.Holds()); {
	case len(lack) == 0:
		return Judge(f, nil)
	case h.Holds() == 0:
		f.State, f.Detail = Missing, fmt.Sprintf("%s: %s", h.Layout, strings.TrimPrefix(lack[0], "no limit on memory: "))
	default:
		f.State, f.Detail = Limited, f.Detail+"; "+strings.Join(lack, "; ")
	}
	return f
}

// surveyRates says whether sandboxes can be held to rates of disks.
func surveyRates(context.Context) Facility {
	f := Facility{Name: "disk rates", Cost: "a sandbox that is given such a limit is refused",
		Detail: "reads and writes of ext4, by the io controller"}
	h, err := cgroup.Detect()
	if err != nil {
		return Judge(f, err)
	}
	var reads, writes *sandbox.Error
	errors.As(h.EnforcesRates(cgroup.Rates{Read: sandbox.MinDiskRate}), &reads)
	errors.As(h.EnforcesRates(cgroup.Rates{Write: sandbox.MinDiskRate}), &writes)
	switch {
	case reads != nil:
		f.State, f.Detail, f.Remedy = Missing, reads.Reason, reads.Remedy
	case writes != nil:
		f.State, f.Detail, f.Remedy = Limited, "reads of ext4, and no writes: "+writes.Reason, writes.Remedy
	default:
		return Judge(f, nil)
	}
	return f
}

func surveyGroupKill(ctx context.Context) Facility {
	f := Facility{Name: "cgroup.kill", Detail: "a process is born into its group, and the group is killed at once",
		Cost: "groups are entered by a slower way, and killed process by process", Remedy: "mount cgroup2, on Linux 5.14 or newer"}
	return Judge(f, withGroup(ctx, bornAndKilled))
}

// withGroup makes a group for the time of one call.
func withGroup(ctx context.Context, use func(context.Context, *cgroup.Group) error) (err error) {
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	run, err := os.MkdirTemp("", "aether-survey-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(run)) }()
	owner, err := h.Own(run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, owner.Close(context.WithoutCancel(ctx))) }()
	group, err := owner.Create("survey")
	if err != nil {
		return err
	}
	err = use(ctx, group)
	return errors.Join(err, group.Kill(ctx), group.Remove(context.WithoutCancel(ctx)))
}

var errNoUnified = errors.New("no version 2 tree that this user may use")

// bornAndKilled clones a process into the group, where it sleeps until the group
// is killed.
func bornAndKilled(ctx context.Context, group *cgroup.Group) error {
	way, err := group.Attach(true)
	if err != nil {
		return err
	}
	if way.Into < 0 {
		return errNoUnified
	}
	if !group.KillsAtOnce() {
		return errors.New("the kernel has no cgroup.kill")
	}
	s, err := spawn.NewScript(0)
	if err != nil {
		return err
	}
	s.Wait(s.Word(), trialTime)
	s.Exit()
	started, err := s.Start(0, way.Into)
	if err != nil {
		return errors.Join(err, s.Free())
	}
	killErr := group.Kill(ctx)
	child, err := started.Await()
	if err == nil {
		_, err = child.Wait()
	}
	return errors.Join(killErr, err, s.Free())
}
