package rest

import (
	"net/url"
	"strconv"

	"aether/engine"
	"aether/sandbox"
)

// parseSnapshotQuery reads the filters of a list of snapshots. Errors: Invalid, with the
// parameter.
func parseSnapshotQuery(raw string) (engine.SnapshotQuery, error) {
	var q engine.SnapshotQuery
	err := eachFilter(raw, func(name, value string, first bool) error {
		if single, ok := map[string]*string{"tenant": &q.Tenant, "sandbox": &q.Sandbox, "name": &q.Name, "after": &q.After}[name]; ok {
			*single = value
			return once(name, first)
		}
		switch name {
		case "metadata":
			return addMetadata(&q.Metadata, value)
		case "limit":
			return setLimit(&q.Limit, value, first)
		}
		return sandbox.Invalidf(name, "there is no such filter")
	})
	return q, err
}

// formatSnapshotQuery is the inverse of parseSnapshotQuery.
func formatSnapshotQuery(q engine.SnapshotQuery) string {
	values := url.Values{}
	for name, value := range map[string]string{"tenant": q.Tenant, "sandbox": q.Sandbox, "name": q.Name, "after": q.After} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for key, value := range q.Metadata {
		values.Add("metadata", key+"="+value)
	}
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	return values.Encode()
}
