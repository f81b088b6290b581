package e2b

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// metric is what a sandbox uses at one moment.
type metric struct {
	Timestamp  time.Time `json:"timestamp"`
	Unix       int64     `json:"timestampUnix"`
	CPUCount   int       `json:"cpuCount"`
	CPUUsedPct float64   `json:"cpuUsedPct"`
	MemUsed    int64     `json:"memUsed"`
	MemTotal   int64     `json:"memTotal"`
	MemCache   int64     `json:"memCache"`
	DiskUsed   int64     `json:"diskUsed"`
	DiskTotal  int64     `json:"diskTotal"`
}

// metrics answers with what the sandbox uses now: no history is kept. A paused one uses
// nothing.
func (d *Dialect) metrics(v *rest.Visit) error {
	s, err := d.of(v)
	if err != nil {
		return err
	}
	list := []metric{}
	if s.State == engine.Running {
		m, err := d.measure(v.Context(), v.Who, s)
		if err != nil {
			return err
		}
		if within(v.URL.Query(), m.Timestamp) {
			list = append(list, m)
		}
	}
	return v.Answer(http.StatusOK, list)
}

// within says whether a moment is in the range that a query asks for, in seconds.
func within(values url.Values, at time.Time) bool {
	start, err := strconv.ParseInt(values.Get("start"), 10, 64)
	if err == nil && at.Unix() < start {
		return false
	}
	end, err := strconv.ParseInt(values.Get("end"), 10, 64)
	return err != nil || at.Unix() <= end
}

// spell is over how long the use of processors is measured.
const spell = 50 * time.Millisecond

func (d *Dialect) measure(ctx context.Context, who engine.Caller, s engine.Sandbox) (metric, error) {
	before, err := d.engine.Stats(ctx, who, s.ID)
	if err != nil {
		return metric{}, err
	}
	began := time.Now()
	select {
	case <-time.After(spell):
	case <-ctx.Done():
		return metric{}, ctx.Err()
	}
	now, err := d.engine.Stats(ctx, who, s.ID)
	if err != nil {
		return metric{}, err
	}
	m := metric{Timestamp: time.Now().UTC().Truncate(time.Millisecond)}
	m.Unix = m.Timestamp.Unix()
	var memoryMB int64
	m.CPUCount, memoryMB, _ = sizes(s.Spec.Limits)
	m.MemTotal, m.MemUsed = memoryMB<<20, value(now.MemoryBytes)
	m.DiskUsed = value(now.DiskBytes)
	m.DiskTotal = m.DiskUsed + value(now.DiskFreeBytes)
	if before.CPUTime != nil && now.CPUTime != nil {
		share := float64(*now.CPUTime-*before.CPUTime) / float64(time.Since(began)) * 100
		m.CPUUsedPct = math.Round(max(share, 0)*100) / 100
	}
	return m, nil
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// metricsOfMany measures up to a hundred sandboxes; those that do not run are left out.
func (d *Dialect) metricsOfMany(v *rest.Visit) error {
	ids := strings.FieldsFunc(strings.Join(v.URL.Query()["sandbox_ids"], ","), func(c rune) bool { return c == ',' })
	if len(ids) > maxPage {
		return sandbox.Invalidf("sandbox_ids", "%d are more than %d", len(ids), maxPage)
	}
	var (
		mu   sync.Mutex
		all  sync.WaitGroup
		body = struct {
			Sandboxes map[string]metric `json:"sandboxes"`
		}{map[string]metric{}}
	)
	for _, id := range ids {
		all.Go(func() {
			s, err := d.living(v.Context(), v.Who, id)
			if err != nil || s.State != engine.Running {
				return
			}
			if m, err := d.measure(v.Context(), v.Who, s); err == nil {
				mu.Lock()
				defer mu.Unlock()
				body.Sandboxes[id] = m
			}
		})
	}
	all.Wait()
	return v.Answer(http.StatusOK, body)
}

// logEntry is an event of a sandbox, told as a line of a log.
type logEntry struct {
	Timestamp time.Time         `json:"timestamp"`
	Level     string            `json:"level"`
	Message   string            `json:"message"`
	Fields    map[string]string `json:"fields"`
}

type logLine struct {
	Timestamp time.Time `json:"timestamp"`
	Line      string    `json:"line"`
}

const maxLogs = 1000

// history lists what the engine remembers to have happened to a sandbox, oldest first.
func (d *Dialect) history(v *rest.Visit) ([]logEntry, error) {
	s, err := d.of(v)
	if err != nil {
		return nil, err
	}
	ended, cancel := context.WithCancel(v.Context())
	cancel() // what comes later is not waited for
	list := []logEntry{}
	for event, err := range d.engine.Events(ended, v.Who, 0) {
		if err != nil {
			return nil, err
		}
		if event.Sandbox != s.ID {
			continue
		}
		fields := event.Detail
		if fields == nil {
			fields = map[string]string{}
		}
		list = append(list, logEntry{event.Time, "info", "sandbox " + string(event.Kind), fields})
	}
	return list, nil
}

// logs answers with the part of the history that a query asks for.
func (d *Dialect) logs(v *rest.Visit) error {
	list, err := d.history(v)
	if err != nil {
		return err
	}
	list, err = chosen(list, v.URL.Query())
	if err != nil {
		return err
	}
	return v.Answer(http.StatusOK, struct {
		Logs []logEntry `json:"logs"`
	}{list})
}

func (d *Dialect) logsOld(v *rest.Visit) error {
	list, err := d.history(v)
	if err != nil {
		return err
	}
	values := v.URL.Query()
	values.Set("cursor", values.Get("start"))
	if list, err = chosen(list, values); err != nil {
		return err
	}
	lines := make([]logLine, len(list))
	for i, e := range list {
		lines[i] = logLine{e.Timestamp, e.Message}
	}
	return v.Answer(http.StatusOK, struct {
		Logs    []logLine  `json:"logs"`
		Entries []logEntry `json:"logEntries"`
	}{lines, list})
}

// chosen reads cursor (milliseconds), direction, limit, level and search. Errors: Invalid.
func chosen(list []logEntry, values url.Values) ([]logEntry, error) {
	backward := values.Get("direction") == "backward"
	limit := maxLogs
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxLogs {
			return nil, sandbox.Invalidf("limit", "%.40q is no number from 0 to %d", text, maxLogs)
		}
		limit = n
	}
	if text := values.Get("cursor"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, sandbox.Invalidf("cursor", "%.40q is no number", text)
		}
		list = slices.DeleteFunc(list, func(e logEntry) bool {
			at := e.Timestamp.UnixMilli()
			return backward && at > n || !backward && at < n
		})
	}
	level, search := values.Get("level"), values.Get("search")
	list = slices.DeleteFunc(list, func(e logEntry) bool {
		return level != "" && level != "debug" && level != e.Level || !strings.Contains(e.Message, search)
	})
	if backward {
		slices.Reverse(list)
	}
	return list[:min(limit, len(list))], nil
}
