package features

import (
	"context"
	"sync"
)

// checks are in the order in which people read them: what carries the built-in
// engine first, what only strengthens it later.
var checks = []func(context.Context) Facility{
	surveyRelease, surveyClone, surveyUserns, surveyNamespaces, surveyMounts, surveyOverlay, surveyMemoryFiles, surveySeccomp,
	surveyGroups, surveyRates, surveyGroupKill, surveyLandlock, surveyOpenat2, surveyPidfd, surveyIDMap, surveyKVM,
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
