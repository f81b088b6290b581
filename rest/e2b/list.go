package e2b

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

const (
	nextHeader    = "X-Next-Token"
	runningHeader = "X-Total-Running"
	maxPage       = 100
	maxFilter     = 4 << 10
)

// list answers with a page, and in headers where the next one begins and how many of what
// was asked for run.
func (d *Dialect) list(v *rest.Visit) error {
	q, err := parseQuery(v.URL.RawQuery)
	if err != nil {
		return err
	}
	page, err := d.engine.List(v.Context(), v.Who, q)
	if err != nil {
		return err
	}
	running := 0
	if slices.Contains(q.States, engine.Running) {
		q.States = []engine.State{engine.Running}
		if running, err = d.engine.CountMatching(v.Context(), v.Who, q); err != nil {
			return err
		}
	}
	if page.Next != "" {
		v.Writer.Header().Set(nextHeader, page.Next)
	}
	v.Writer.Header().Set(runningHeader, strconv.Itoa(running))
	return v.Answer(http.StatusOK, bodies(page.Sandboxes))
}

func bodies(list []engine.Sandbox) []listedBody {
	all := make([]listedBody, len(list))
	for i, s := range list {
		all[i] = listed(s)
	}
	return all
}

// listOld lists what runs, all of it.
func (d *Dialect) listOld(v *rest.Visit) error {
	q, err := parseQuery(v.URL.RawQuery)
	if err != nil {
		return err
	}
	q.States = []engine.State{engine.Running}
	all := []listedBody{}
	for {
		page, err := d.engine.List(v.Context(), v.Who, q)
		if err != nil {
			return err
		}
		all = append(all, bodies(page.Sandboxes)...)
		if q.After = page.Next; q.After == "" {
			return v.Answer(http.StatusOK, all)
		}
	}
}

// parseQuery reads the filters of a list. Errors: Invalid, with the parameter.
func parseQuery(raw string) (q engine.Query, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, sandbox.Invalidf("query", "%.200s", err)
	}
	if q.Limit, err = limitOf(values); err != nil {
		return q, err
	}
	if q.States, err = states(values["state"]); err != nil {
		return q, err
	}
	if q.Metadata, err = metadata(values.Get("metadata")); err != nil {
		return q, err
	}
	switch order := values.Get("order"); order {
	case "", "desc":
	case "asc":
		q.Oldest = true
	default:
		return q, sandbox.Invalidf("order", "%.40q is not one of asc, desc", order)
	}
	if text := values.Get("startedAfter"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return q, sandbox.Invalidf("startedAfter", "%.40q is no time", text)
		}
	}
	if name := values.Get("template"); name != "" {
		q.SpecMetadata = map[string]string{markTemplate: name}
	}
	q.After = values.Get("nextToken")
	return q, nil
}

func limitOf(values url.Values) (int, error) {
	text := values.Get("limit")
	if text == "" {
		return maxPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, sandbox.Invalidf("limit", "%.40q is no number from 1 to %d", text, maxPage)
	}
	return n, nil
}

// states reads a list that is separated by commas, or given in several parameters.
func states(given []string) (list []engine.State, err error) {
	for word := range strings.SplitSeq(strings.Join(given, ","), ",") {
		switch state := engine.State(word); state {
		case "":
		case engine.Running, engine.Paused:
			list = append(list, state)
		default:
			return nil, sandbox.Invalidf("state", "%.40q is not one of running, paused", word)
		}
	}
	if len(list) == 0 {
		list = []engine.State{engine.Running, engine.Paused}
	}
	return list, nil
}

// metadata reads a query within the query, whose parts clients escape once more.
func metadata(text string) (map[string]string, error) {
	if len(text) > maxFilter {
		return nil, sandbox.Invalidf("metadata", "it is over %d bytes", maxFilter)
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, sandbox.Invalidf("metadata", "%.200s", err)
	}
	var want map[string]string
	for key, list := range values {
		name, err := url.QueryUnescape(key)
		if err != nil {
			return nil, sandbox.Invalidf("metadata", "%.80q is not escaped twice", key)
		}
		value, err := url.QueryUnescape(list[0])
		if err != nil {
			return nil, sandbox.Invalidf("metadata", "%.80q is not escaped twice", list[0])
		}
		if want == nil {
			want = map[string]string{}
		}
		want[name] = value
	}
	return want, nil
}
