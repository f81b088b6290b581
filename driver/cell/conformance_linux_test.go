package cell_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aether/driver/cell"
	"aether/driver/drivertest"
	"aether/image"
	"aether/internal/unprivtest"
	"aether/network/networktest"
	"aether/sandbox"
)

const (
	// conformanceStore tells a program that plays a part where the images are.
	conformanceStore = "AETHER_CELL_TEST_IMAGES"
	// weakness names what is wrong with the driver, so that the suite can be seen
	// to notice.
	weakness = "AETHER_CELL_TEST_WEAKNESS"
)

func conformanceDriver(dir string) sandbox.Driver {
	driver := cell.New(cell.Options{RunDir: dir, Network: networktest.Service(), Images: func() (*image.Store, error) { return image.Open(os.Getenv(conformanceStore)) }})
	if os.Getenv(weakness) == "one for all" {
		return drivertest.OneForAll(driver)
	}
	if os.Getenv(weakness) != "" {
		return weakDriver{driver, os.Getenv(weakness)}
	}
	return driver
}

func init() {
	if played, code := drivertest.Play(conformanceDriver); played {
		os.Exit(code)
	}
}

func TestConformance(t *testing.T) {
	if os.Getenv(conformanceStore) == "" {
		t.Setenv(conformanceStore, filepath.Join(scratch, "images"))
	}
	config := drivertest.Config{New: conformanceDriver, Overhead: 1, Pace: pace(), Weaknesses: weaknesses()}
	if os.Getenv(weakness) != "" {
		config.Pace = 0.2 // what is broken need not be waited for
	}
	t.Cleanup(func() {
		if err := networktest.Close(); err != nil {
			t.Error(err)
		}
	})
	drivertest.Run(t, config)
}

// weaknesses are those of cells that have one id: see docs/SECURITY.md. What a cell may
// have of inotify instances and pending signals is bounded besides.
func weaknesses() map[string]string {
	if unprivtest.Privileged() {
		return nil
	}
	return drivertest.Weaker(
		drivertest.Weak("all cells of an ordinary user are that user", "pages of pipes", "descriptors in flight", "room for queues"),
		drivertest.Weak("only root can make devices: those of an ordinary user's cells are the host's", "locks of devices"))
}

// weakDriver breaks one promise.
type weakDriver struct {
	*cell.Driver
	weakness string
}

func (d weakDriver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	switch d.weakness {
	case "no limits":
		spec.Limits = sandbox.Limits{}
	case "host network":
		spec.Network.Mode = sandbox.HostNetwork
	case "writable mounts":
		for i := range spec.Mounts {
			spec.Mounts[i].Writable = true
		}
	case "weaker boundary":
		spec.Isolation = sandbox.AnyBoundary
	case "host image":
		spec.Image = ""
	case "reaches everything":
		if spec.Network.Mode == sandbox.EgressNetwork {
			spec.Network.Allow = append(spec.Network.Allow, "0.0.0.0/0", "0.0.0.0/0/udp")
		}
	case "same id":
		spec.ID = "always-the-same"
	case "shows the host's files":
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: "/usr", Target: "/usr"})
	}
	instance, err := d.Driver.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return weakInstance{instance, d.weakness}, nil
}

type weakInstance struct {
	sandbox.Instance
	weakness string
}

func (i weakInstance) Destroy(ctx context.Context) error {
	switch i.weakness {
	case "ignores destroy":
		return nil
	case "leaves a process":
		if err := exec.Command("sleep", "10").Start(); err != nil {
			return err
		}
	case "heeds contexts":
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return i.Instance.Destroy(ctx)
}

func (i weakInstance) SetNetwork(ctx context.Context, n sandbox.Network) error {
	if i.weakness == "keeps its policy" {
		return nil
	}
	return i.Instance.(sandbox.NetworkSetter).SetNetwork(ctx, n)
}

func (i weakInstance) Wait(ctx context.Context) (sandbox.Exit, error) {
	if i.weakness == "forgets why" {
		_, err := i.Instance.Wait(ctx)
		return sandbox.Exit{Cause: sandbox.Crashed}, err
	}
	return i.Instance.Wait(ctx)
}

func TestConformanceNoticesWeakDrivers(t *testing.T) {
	needRoot(t, "cgroups, without which limits are refused")
	if testing.Short() {
		t.Skip("it runs parts of the suite ten times")
	}
	store := conformanceStore + "=" + filepath.Join(scratch, "images")
	// Not limits/cpu: on a busy host nobody gets much.
	limits := []string{"limits/memory", "limits/processes", "limits/disk"}
	if !drivertest.TempInMemory() {
		limits = append(limits, "limits/disk read rate")
	}
	for name, subtests := range map[string][]string{
		"no limits":          limits,
		"host network":       {"isolation/no network", "isolation/host's loopback"},
		"reaches everything": {"egress/everything else", "egress/datagrams"},
		"keeps its policy":   {"egress/policy change"},
		"writable mounts":    {"mounts/read-only", "mounts/file"},
		"weaker boundary":    {"refusals/stronger boundary", "refusals/no such boundary"},
		"host image":         {"refusals/unknown image", "refusals/broken image"},
		"same id":            {"lifecycle/identity", "isolation/two sandboxes"},
		"ignores destroy":    {"leaks/lives", "lifecycle/after the end"},
		"leaves a process":   {"leaks/lives"},
		"heeds contexts":     {"lifecycle/cancelled contexts"},
		"forgets why":        {"lifecycle/wait by many", "lifecycle/lifetime"},
		// What the filter refuses is tried by the example of docs/adding-a-driver.md.
		"one for all": {"neighbours/locks of programs", "neighbours/locks of files", "neighbours/locks of devices", "neighbours/abstract sockets",
			"neighbours/System V objects", "neighbours/message queues", "neighbours/shared memory", "neighbours/inotify instances",
			"neighbours/pages of pipes", "neighbours/descriptors in flight", "neighbours/pending signals", "neighbours/room for queues",
			"neighbours/number of processes", "neighbours/watches of programs", "neighbours/processes"},
		"shows the host's files": {"neighbours/locks of programs", "neighbours/watches of programs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.WantFailures(t, "TestConformance", []string{weakness + "=" + name, store}, subtests...)
		})
	}
}
