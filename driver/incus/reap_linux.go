package incus

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"aether/driver/daemon"
)

const (
	// ownerKey is the setting that names the program that a container belongs to.
	ownerKey = "user.aether.owner"
	idKey    = "user.aether.id"
)

// namePattern is of the names that containers get here.
var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^aether-[a-z2-7]{26}$`) })

func newName() string { return "aether-" + strings.ToLower(rand.Text()) }

const (
	// calm is how long nothing of dead programs may be found before it is believed
	// that nothing is left, and settleTime how long that is tried.
	calm       = 3 * daemon.Again
	settleTime = 10 * time.Second
)

// Reap implements sandbox.Reaper. The daemon lets the containers of programs that
// were killed run.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	api := connect(d.opts.address())
	meet := func() error { _, err := api.ping(ctx); return err }
	return daemon.Reap(d.opts.RunDir, meet, func(runDir string) (int, error) { return api.reap(ctx, runDir) })
}

// reap removes the containers of dead programs, and their locks. The daemon goes
// on with what a program asked for before it was killed, so where there are dead
// ones it is looked for until it is there.
func (c *client) reap(ctx context.Context, runDir string) (count int, err error) {
	dead := daemon.OpenGraveyard(runDir)
	defer func() { err = errors.Join(err, dead.Close()) }()
	recent := len(dead.Locks()) > 0
	for began, last := time.Now(), time.Now(); ; {
		buried, err := c.bury(ctx, dead)
		if count += buried; err != nil {
			return count, explain(err)
		}
		busy, err := c.begun(ctx)
		if err != nil {
			return count, explain(err)
		}
		if buried > 0 || busy {
			last = time.Now()
		}
		if !recent || time.Since(last) >= calm || time.Since(began) >= settleTime {
			return count, nil
		}
		if err := daemon.Pause(ctx); err != nil {
			return count, err
		}
	}
}

// bury removes the containers of dead programs that are there now.
func (c *client) bury(ctx context.Context, dead daemon.Graveyard) (count int, err error) {
	names, err := c.named(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		owner, err := c.ownerOf(ctx, name)
		if err != nil {
			return count, err
		}
		if !dead.Has(owner) {
			continue
		}
		if err := c.remove(ctx, name); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

// named lists the containers with names of ours. It asks for no more than names,
// for the daemon may have thousands of containers, with much to say of each.
func (c *client) named(ctx context.Context) (names []string, err error) {
	var paths []string
	if err := c.get(ctx, "/1.0/instances", &paths); err != nil {
		return nil, err
	}
	return ours(paths), nil
}

// ours are the names in paths that are of containers made here.
func ours(paths []string) (names []string) {
	for _, p := range paths {
		if name := path.Base(p); namePattern().MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// ownerOf is the setting of a container, empty for one that is not there.
func (c *client) ownerOf(ctx context.Context, name string) (string, error) {
	var container struct {
		Config map[string]string `json:"config"`
	}
	err := c.get(ctx, instancePath(name), &container)
	if gone(err) {
		return "", nil
	}
	return container.Config[ownerKey], err
}

// begun says that the daemon works on a container of which nobody can tell yet
// whose it will be.
func (c *client) begun(ctx context.Context) (bool, error) {
	var byStatus map[string][]task
	if err := c.get(ctx, "/1.0/operations?recursion=1", &byStatus); err != nil {
		return false, err
	}
	for _, t := range slices.Concat(slices.Collect(maps.Values(byStatus))...) {
		for _, name := range t.containers() {
			if owner, err := c.ownerOf(ctx, name); owner == "" || err != nil {
				return true, err
			}
		}
	}
	return false, nil
}

// task is an operation as the daemon lists it.
type task struct {
	Code      int                 `json:"status_code"`
	Resources map[string][]string `json:"resources"`
}

// containers are those of ours that a task is about which goes on.
func (t task) containers() []string {
	if t.Code != opRunning {
		return nil
	}
	return ours(t.Resources["instances"])
}
