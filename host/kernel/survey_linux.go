package kernel

import (
	"context"
	"errors"
	"sync"

	"aether/sandbox"
)

// checks are in the order in which people read them: what carries the built-in
// engine first, what only strengthens it later.
var checks = []func(context.Context) Facility{
	surveyRelease, surveyClone, surveyUserns, surveyNamespaces, surveyMounts, surveyOverlay, surveyMemoryFiles, surveySeccomp,
	surveyGroups, surveyGroupKill, surveyLandlock, surveyOpenat2, surveyPidfd, surveyIDMap, surveyKVM,
}

// Survey tries everything that Aether can use on this host. It leaves nothing
// behind and answers within two seconds.
func Survey(ctx context.Context) []Facility {
	found := make([]Facility, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() { found[i] = check(ctx) })
	}
	all.Wait()
	return found
}

// Judge fills in the state of a facility that is there or not: f.Detail says
// what it is if err is nil, err why it is not otherwise. A typed error brings a
// better remedy than the usual one.
func Judge(f Facility, err error) Facility {
	if err == nil {
		f.State, f.Cost, f.Remedy = OK, "", ""
		return f
	}
	f.State, f.Detail = Missing, err.Error()
	var typed *sandbox.Error
	if errors.As(err, &typed) {
		f.Detail, f.Remedy = typed.Reason, typed.Remedy
		if typed.Err != nil {
			f.Detail += ": " + typed.Err.Error()
		}
	}
	return f
}
