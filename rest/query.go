package rest

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"aether/engine"
	"aether/sandbox"
)

const (
	maxPage    = 100
	maxFilters = 64 // of one kind
	maxFilter  = 4 << 10
)

// parseQuery reads the filters of a list. Errors: Invalid, with the parameter.
func parseQuery(raw string) (engine.Query, error) {
	var q engine.Query
	err := eachFilter(raw, func(name, value string, first bool) error { return addFilter(&q, name, value, first) })
	slices.Sort(q.States)
	return q, err
}

// eachFilter gives every parameter of a query, and says of those with the same name which
// is the first. Errors: Invalid, with the parameter; those of add.
func eachFilter(raw string, add func(name, value string, first bool) error) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return sandbox.Invalidf("query", "%.200s", err)
	}
	for name, list := range values {
		if len(list) > maxFilters {
			return sandbox.Invalidf(name, "%d are more than %d", len(list), maxFilters)
		}
		for i, value := range list {
			if len(value) > maxFilter || strings.ContainsRune(value, 0) {
				return sandbox.Invalidf(name, "it holds a zero byte or is over %d bytes", maxFilter)
			}
			if err := add(name, value, i == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// addFilter adds one. Those of which there is one are given once.
func addFilter(q *engine.Query, name, value string, first bool) error {
	if single, ok := map[string]*string{"tenant": &q.Tenant, "driver": &q.Driver, "template": &q.Template, "after": &q.After}[name]; ok {
		*single = value
		return once(name, first)
	}
	switch name {
	case "state":
		return addState(q, value)
	case "metadata":
		return addMetadata(&q.Metadata, value)
	case "limit":
		return setLimit(&q.Limit, value, first)
	}
	return sandbox.Invalidf(name, "there is no such filter")
}

func setLimit(limit *int, value string, first bool) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxPage {
		return sandbox.Invalidf("limit", "%.40q is no number from 1 to %d", value, maxPage)
	}
	*limit = n
	return once("limit", first)
}

func once(name string, first bool) error {
	if !first {
		return sandbox.Invalidf(name, "it is given more than once")
	}
	return nil
}

func addState(q *engine.Query, value string) error {
	state := engine.State(value)
	switch state {
	case engine.Running, engine.Paused, engine.Ended:
		q.States = append(q.States, state)
		return nil
	}
	return sandbox.Invalidf("state", "%.40q is not one of running, paused, ended", value)
}

// addMetadata reads key=value.
func addMetadata(metadata *map[string]string, text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return sandbox.Invalidf("metadata", "%.80q is not of the form key=value", text)
	}
	if other, given := (*metadata)[key]; given && other != value {
		return sandbox.Invalidf("metadata", "%.80q is given two values", key)
	}
	if *metadata == nil {
		*metadata = map[string]string{}
	}
	(*metadata)[key] = value
	return nil
}

// formatQuery is the inverse of parseQuery.
func formatQuery(q engine.Query) string {
	values := url.Values{}
	for name, value := range map[string]string{"tenant": q.Tenant, "driver": q.Driver, "template": q.Template, "after": q.After} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for _, state := range q.States {
		values.Add("state", string(state))
	}
	for key, value := range q.Metadata {
		values.Add("metadata", key+"="+value)
	}
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	return values.Encode()
}
