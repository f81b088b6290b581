package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"aether/lab"
	"aether/sandbox"
)

// idleRounds is how often the memory is measured, with a network and without in turn.
const idleRounds = 5

// anonymous is the kind of memory that processes have. What others on the host do changes it
// by more than a hundred sandboxes hold: of that, the gateways' program's own counts.
const anonymous = "anonymous pages"

// kernels is the memory of the kernel that sandboxes hold.
func kernels(m lab.Memory) int64 { return m["SUnreclaim"] + m["Percpu"] }

// idle measures the memory of sandboxes that do nothing, without a network and with one.
func (b *bench) idle(ctx context.Context, r *Report) (err error) {
	driver, end := b.newCells("run-idle", 0)
	defer func() { err = errors.Join(err, end()) }()
	// What is there with the first sandbox stays.
	if _, err := driver.Create(ctx, sandbox.Spec{Network: b.egress()}); err != nil {
		return err
	}
	if r.Process.OneKiB, err = processMemory(); err != nil {
		return err
	}
	empty, err := lab.Settled(ctx, kernels)
	if err != nil {
		return err
	}
	var without, with []Footprint
	for range min(b.opts.Rounds, idleRounds) {
		for _, n := range []struct {
			network sandbox.Network
			rows    *[]Footprint
		}{{sandbox.Network{}, &without}, {b.egress(), &with}} {
			var f Footprint
			if f, empty, err = b.held(ctx, driver, n.network, empty, r); err != nil {
				return err
			}
			*n.rows = append(*n.rows, f)
		}
	}
	r.Idle = []Footprint{middle(rowWarm, without), middle(rowWarmEgress, with)}
	return nil
}

// middle is the median of what was measured.
func middle(name string, list []Footprint) Footprint {
	slices.SortFunc(list, func(a, b Footprint) int { return int(a.EachKiB - b.EachKiB) })
	f := list[len(list)/2]
	f.Name = name
	return f
}

// held compares the memory with sandboxes to the middle between that before and after.
func (b *bench) held(ctx context.Context, driver sandbox.Driver, n sandbox.Network, before lab.Memory, r *Report) (f Footprint, after lab.Memory, err error) {
	alive, err := crowd(ctx, driver, n, b.opts.Idle)
	var with lab.Memory
	if err == nil {
		with, err = lab.Settled(ctx, kernels)
	}
	gateways := 0.0
	if err == nil && n.Mode == sandbox.EgressNetwork {
		r.Process.Alive = len(alive) + 1
		r.Process.AllKiB, err = processMemory()
		gateways = r.Process.EachKiB()
	}
	for _, instance := range alive {
		err = errors.Join(err, instance.Destroy(context.Background()))
	}
	if err != nil {
		return f, nil, err
	}
	if after, err = lab.Settled(ctx, kernels); err != nil {
		return f, nil, err
	}
	_, parts := lab.Held(before, with, after, len(alive))
	return footprint(parts, gateways, len(alive)), after, nil
}

// footprint sums up the kernel's memory by its kinds, and that of the gateways' program.
func footprint(parts []lab.Part, gateways float64, live int) Footprint {
	f := Footprint{Live: live, Parts: []lab.Part{{Name: "aether-net", Value: gateways, Unit: lab.KiB}}}
	for _, p := range parts {
		if p.Name != anonymous {
			f.Parts = append(f.Parts, p)
		}
	}
	for _, p := range f.Parts {
		f.EachKiB += p.Value
	}
	return f
}

func crowd(ctx context.Context, driver sandbox.Driver, n sandbox.Network, count int) (alive []sandbox.Instance, err error) {
	for len(alive) < count {
		instance, err := driver.Create(ctx, sandbox.Spec{Network: n})
		if err != nil {
			return alive, fmt.Errorf("sandbox %d: %w", len(alive)+1, err)
		}
		alive = append(alive, instance)
	}
	return alive, nil
}

// command is the command line of the gateways' program.
const command = "aether-net\x00"

// processMemory is how much memory the gateways' programs of this one have, in KiB.
func processMemory() (sum int64, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	own, found := strconv.Itoa(os.Getpid()), false
	for _, path := range all {
		if line, err := os.ReadFile(path); err != nil || string(line) != command {
			continue // another, or it has ended
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if err != nil {
			continue
		}
		status := fields(string(text))
		if status["PPid"] != own {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(status["RssAnon"], " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		sum, found = sum+n, true
	}
	if !found {
		return 0, errors.New("none of the gateways' programs runs")
	}
	return sum, nil
}

func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		all[name] = strings.TrimSpace(value)
	}
	return all
}
