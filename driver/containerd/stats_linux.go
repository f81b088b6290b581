package containerd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"aether/driver/daemon"
	"aether/sandbox"
)

// Stats implements guestagent.Workload. The figures are those of the cgroup around the
// sandbox's processes, which a machine has inside.
func (b *workload) Stats(ctx context.Context) (sandbox.Stats, error) {
	answer, err := b.engine.client.call(ctx, tasks, "Metrics", message{}.text(1, "id=="+b.id))
	if err != nil {
		return sandbox.Stats{}, fmt.Errorf("containerd: stats: %w", explain(err))
	}
	for _, m := range answer.parts[1] {
		metric, err := m.read()
		if err == nil && metric.text(2) != b.id {
			continue
		}
		stats, failed := readStats(message(metric.text(3)))
		if err = errors.Join(err, failed); err != nil {
			return sandbox.Stats{}, fmt.Errorf("containerd: stats: %w", err)
		}
		return stats, nil
	}
	return sandbox.Stats{}, nil
}

// readStats takes the figures of either version of cgroups. They come from a shim.
func readStats(m message) (sandbox.Stats, error) {
	data, err := m.read()
	if err != nil {
		return sandbox.Stats{}, err
	}
	kind := data.text(1)
	switch {
	case strings.HasSuffix(kind, "io.containerd.cgroups.v1.Metrics"):
		return legacy(message(data.text(2)))
	case strings.HasSuffix(kind, "io.containerd.cgroups.v2.Metrics"):
		return unified(message(data.text(2)))
	}
	return sandbox.Stats{}, nil
}

// legacy reads the figures of version 1.
func legacy(m message) (sandbox.Stats, error) {
	metrics, err := m.read()
	pids, err1 := metrics.inner(2)
	cpu, err2 := metrics.inner(3)
	used, err3 := cpu.inner(1)
	memory, err4 := metrics.inner(4)
	usage, err5 := memory.inner(33)
	oom, err6 := metrics.inner(9)
	s := sandbox.Stats{MemoryBytes: daemon.Known(usage.numbers[2]), MemoryPeakBytes: daemon.Known(usage.numbers[3]),
		Processes: daemon.Known(pids.numbers[1]), CPUTime: (*time.Duration)(daemon.Known(used.numbers[1]))}
	if metrics.has(9) {
		kills := int64(oom.numbers[3])
		s.OOMKills = &kills
	}
	return s, errors.Join(err, err1, err2, err3, err4, err5, err6)
}

// unified reads the figures of version 2.
func unified(m message) (sandbox.Stats, error) {
	metrics, err := m.read()
	pids, err1 := metrics.inner(1)
	cpu, err2 := metrics.inner(2)
	memory, err3 := metrics.inner(4)
	events, err4 := metrics.inner(8)
	s := sandbox.Stats{MemoryBytes: daemon.Known(memory.numbers[32]), MemoryPeakBytes: daemon.Known(memory.numbers[36]),
		Processes: daemon.Known(pids.numbers[1]), CPUTime: (*time.Duration)(daemon.Known(cpu.numbers[1] * uint64(time.Microsecond)))}
	if metrics.has(8) {
		kills := int64(events.numbers[5])
		s.OOMKills = &kills
	}
	return s, errors.Join(err, err1, err2, err3, err4)
}
