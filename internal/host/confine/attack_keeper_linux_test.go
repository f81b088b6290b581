package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"aether/internal/host/cgroup"
)

// keeper plays, outside, the program that keeps cells: it has more memory than
// its cell may have, fills the cell's memory group, and goes on executing in it.
// Nothing that a cell does may end it.
func keeper(f facts) error {
	ballast := make([]byte, 128<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	dir := os.TempDir() // of whoever started us, who reaps if we are killed
	owner, err := ownGroups(dir)
	if err != nil {
		return err
	}
	err = keepFull(dir, owner, f)
	fmt.Println("kept", len(ballast), err == nil)
	return errors.Join(err, owner.Close(context.Background()))
}

func ownGroups(dir string) (*cgroup.Owner, error) {
	hierarchy, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	return hierarchy.Own(dir)
}

// keepFull boots cells whose writable layer is larger than their memory, has them
// filled, and executes in them, for so many milliseconds.
func keepFull(dir string, owner *cgroup.Owner, f facts) error {
	group, attach, err := limited(owner, "full", cgroup.Limits{Memory: f.Memory})
	if err != nil {
		return err
	}
	host, err := Open(Options{Dir: dir})
	if err != nil {
		return err
	}
	defer host.Close()
	tree, err := plantTree(dir + "/layer")
	if err != nil {
		return err
	}
	base, err := host.Prepare(tree)
	if err != nil {
		return err
	}
	defer base.Close()
	// On a busy host it goes on until the memory has been full.
	began := time.Now()
	over := func() bool {
		took := time.Since(began)
		events, failed := group.Events()
		err = failed
		return took > patience || failed != nil || took > time.Duration(f.Limit)*time.Millisecond && events.OOMKills > 0
	}
	for ready := false; !over(); ready = !ready {
		keepOne(base, Config{Hostname: "cell", Upper: 64 << 20, Group: attach, Ready: ready}, over)
	}
	if err == nil && time.Since(began) > patience {
		err = errors.New("the cell's memory was never full")
	}
	return err
}

// keepOne executes in a cell until the time is over or the cell is. Without
// memory every step may fail; none may take us with it.
func keepOne(base *Base, config Config, over func() bool) {
	cell, err := base.Boot(config)
	if err != nil {
		return
	}
	defer func() { cell.Kill(); cell.Wait() }()
	command := Command{Path: "/bin/sh", Dir: "/tmp", UID: UserID, GID: UserID, Group: config.Group,
		Args: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do cat /dev/zero > /tmp/$i; done"}}
	for cell.init.Signal(0) == nil && !over() {
		if p, _, err := cell.Exec(command); err == nil {
			p.Wait()
		}
	}
}

func limited(owner *cgroup.Owner, name string, limits cgroup.Limits) (*cgroup.Group, cgroup.Way, error) {
	group, err := owner.Create(name)
	if err != nil {
		return nil, cgroup.Way{}, err
	}
	if err := group.Set(limits); err != nil {
		return nil, cgroup.Way{}, err
	}
	return group, group.Way(), nil
}
