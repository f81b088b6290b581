package rest

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"aether/engine"
)

// bounds are those of the durations that are told apart, in seconds.
var bounds = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// metrics are what the server has done, in Prometheus' text format.
type metrics struct {
	mu        sync.Mutex
	answers   map[series]uint64
	durations map[string]*histogram // by operation
}

type series struct {
	operation string
	status    int
}

type histogram struct {
	buckets [len(bounds)]uint64 // each without those before it
	count   uint64
	sum     float64
}

func (m *metrics) count(rt *route, status int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers, m.durations = map[series]uint64{}, map[string]*histogram{}
	}
	m.answers[series{rt.name, status}]++
	if rt.stream != nil {
		return // they last as long as their callers want
	}
	h := m.durations[rt.name]
	if h == nil {
		h = new(histogram)
		m.durations[rt.name] = h
	}
	h.add(took.Seconds())
}

func (h *histogram) add(seconds float64) {
	h.count++
	h.sum += seconds
	if at, _ := slices.BinarySearch(bounds[:], seconds); at < len(bounds) {
		h.buckets[at]++
	}
}

// writeMetrics answers with the metrics.
func (s *Server) writeMetrics(a *answer, _ *request) error {
	var text bytes.Buffer
	s.metrics.write(&text)
	gauge(&text, "aether_http_streams", "Requests to guest services and followers of events that are open.", float64(s.streams.size()))
	gauge(&text, "aether_http_creations", "Creations and forks that are under way.", float64(s.creations.size()))
	gauge(&text, "go_goroutines", "Goroutines of the daemon.", float64(runtime.NumGoroutine()))
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	gauge(&text, "go_memstats_heap_alloc_bytes", "Bytes of heap in use.", float64(memory.HeapAlloc))
	gauge(&text, "go_memstats_sys_bytes", "Bytes obtained from the system.", float64(memory.Sys))
	if s.opts.Count != nil {
		writeCounts(&text, s.opts.Count())
	}
	s.write(a, http.StatusOK, text.Bytes(), "text/plain; version=0.0.4; charset=utf-8")
	return nil
}

func writeCounts(to *bytes.Buffer, counts map[string]map[engine.State]int) {
	const name = "aether_sandboxes"
	fmt.Fprintf(to, "# HELP %s Sandboxes by driver and state, those that ended lately included.\n# TYPE %s gauge\n", name, name)
	for _, driver := range sortedKeys(counts, cmp.Compare[string]) {
		for _, state := range sortedKeys(counts[driver], cmp.Compare[engine.State]) {
			fmt.Fprintf(to, "%s{driver=%q,state=%q} %d\n", name, driver, string(state), counts[driver][state])
		}
	}
}

func gauge(to *bytes.Buffer, name, help string, value float64) {
	fmt.Fprintf(to, "# HELP %s %s\n# TYPE %s gauge\n%s %v\n", name, help, name, name, value)
}

func (m *metrics) write(to *bytes.Buffer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprint(to, "# HELP aether_http_requests_total Requests by operation and status.\n# TYPE aether_http_requests_total counter\n")
	for _, key := range sortedKeys(m.answers, func(a, b series) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(a.status, b.status))
	}) {
		fmt.Fprintf(to, "aether_http_requests_total{operation=%q,code=\"%d\"} %d\n", key.operation, key.status, m.answers[key])
	}
	fmt.Fprint(to, "# HELP aether_http_request_seconds Time to answer.\n# TYPE aether_http_request_seconds histogram\n")
	for _, name := range sortedKeys(m.durations, cmp.Compare[string]) {
		m.durations[name].write(to, name)
	}
}

func (h *histogram) write(to *bytes.Buffer, operation string) {
	const name = "aether_http_request_seconds"
	sum := uint64(0)
	for i, bound := range bounds {
		sum += h.buckets[i]
		fmt.Fprintf(to, "%s_bucket{operation=%q,le=\"%v\"} %d\n", name, operation, bound, sum)
	}
	fmt.Fprintf(to, "%s_bucket{operation=%q,le=\"+Inf\"} %d\n", name, operation, h.count)
	fmt.Fprintf(to, "%s_sum{operation=%q} %v\n%s_count{operation=%q} %d\n", name, operation, h.sum, name, operation, h.count)
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(K, K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
