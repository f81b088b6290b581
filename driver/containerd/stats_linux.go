package containerd

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	v2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"aether/driver/daemon"
	"aether/sandbox"
)

// Stats implements guestagent.Body. The figures are those of the cgroup around the
// sandbox's processes, which a machine has inside.
func (b *body) Stats(ctx context.Context) (sandbox.Stats, error) {
	answer, err := b.engine.client.tasks.Metrics(ctx, &tasks.MetricsRequest{Filters: []string{"id==" + b.id}})
	if err != nil {
		return sandbox.Stats{}, fmt.Errorf("containerd: stats: %w", explain(err))
	}
	for _, m := range answer.GetMetrics() {
		if m.GetID() == b.id {
			return read(m.GetData())
		}
	}
	return sandbox.Stats{}, nil
}

// read takes the figures of either version of cgroups. They come from a shim.
func read(data *anypb.Any) (sandbox.Stats, error) {
	switch {
	case strings.HasSuffix(data.GetTypeUrl(), "io.containerd.cgroups.v1.Metrics"):
		m := &v1.Metrics{}
		if err := proto.Unmarshal(data.GetValue(), m); err != nil {
			return sandbox.Stats{}, fmt.Errorf("containerd: stats: %w", err)
		}
		return legacy(m), nil
	case strings.HasSuffix(data.GetTypeUrl(), "io.containerd.cgroups.v2.Metrics"):
		m := &v2.Metrics{}
		if err := proto.Unmarshal(data.GetValue(), m); err != nil {
			return sandbox.Stats{}, fmt.Errorf("containerd: stats: %w", err)
		}
		return unified(m), nil
	}
	return sandbox.Stats{}, nil
}

func legacy(m *v1.Metrics) sandbox.Stats {
	memory := m.GetMemory().GetUsage()
	s := sandbox.Stats{MemoryBytes: daemon.Known(memory.GetUsage()), MemoryPeakBytes: daemon.Known(memory.GetMax()),
		Processes: daemon.Known(m.GetPids().GetCurrent()), CPUTime: (*time.Duration)(daemon.Known(m.GetCPU().GetUsage().GetTotal()))}
	if oom := m.GetMemoryOomControl(); oom != nil {
		kills := int64(oom.GetOomKill())
		s.OOMKills = &kills
	}
	return s
}

func unified(m *v2.Metrics) sandbox.Stats {
	s := sandbox.Stats{MemoryBytes: daemon.Known(m.GetMemory().GetUsage()), MemoryPeakBytes: daemon.Known(m.GetMemory().GetMaxUsage()),
		Processes: daemon.Known(m.GetPids().GetCurrent()), CPUTime: (*time.Duration)(daemon.Known(m.GetCPU().GetUsageUsec() * uint64(time.Microsecond)))}
	if events := m.GetMemoryEvents(); events != nil {
		kills := int64(events.GetOomKill())
		s.OOMKills = &kills
	}
	return s
}
