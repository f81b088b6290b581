package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aether/sandbox"
)

// Verdicts on a step.
const (
	pass    = "pass"
	fail    = "fail"
	refused = "refused" // as was expected
	skip    = "skipped"
)

// result is how one step ended.
type result struct {
	Host    string  `json:"host"`
	Way     string  `json:"way"`
	Step    string  `json:"step"`
	Verdict string  `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`
	Tests   *tally  `json:"tests,omitempty"`
	Output  string  `json:"output,omitempty"` // the last lines of what failed, or what was measured
}

const (
	// resultMark begins the line by which a machine tells a result, endMark the
	// one by which it says that there is no more.
	resultMark = "hosttest-result: "
	endMark    = "hosttest-end"
	// said marks the lines of the programs that run there, so that none of them can
	// look like a result.
	said = "| "
	// mostLine is how long a line of the console may be.
	mostLine = 256 << 10
)

// line is the result as the console carries it. It begins anew, whatever stands on
// the console's last line.
func (r result) line() string {
	text, err := json.Marshal(r)
	if err != nil {
		text = []byte(err.Error()) // which is no result, and is seen to be none
	}
	return "\n" + resultMark + string(text) + "\n"
}

// parseResult reads a line of the console; ok says that it claims to be a result.
// Nothing but an answer to one of the jobs is one.
func parseResult(line string, jobs []job) (r result, ok bool, err error) {
	text, ok := strings.CutPrefix(line, resultMark)
	if !ok {
		return result{}, false, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return result{}, true, sandbox.Invalidf("console", "a garbled result: %v: %.120q", err, text)
	}
	return r, true, r.validate(jobs)
}

func (r result) validate(jobs []job) error {
	asked := slices.ContainsFunc(jobs, func(j job) bool { return j.Way == r.Way && j.Step == r.Step })
	switch {
	case !asked:
		return sandbox.Invalidf("console", "a result for %.40q on %.40q, which was not asked for", r.Step, r.Way)
	case !slices.Contains([]string{pass, fail, refused, skip}, r.Verdict):
		return sandbox.Invalidf("console", "%.40q is no verdict", r.Verdict)
	case r.Seconds < 0 || r.Tests.negative():
		return sandbox.Invalidf("console", "a result with negative numbers")
	}
	return nil
}

// missing are the results for jobs of which the machine said nothing.
func missing(host string, jobs []job, found []result, why string) (list []result) {
	for _, j := range jobs {
		if !slices.ContainsFunc(found, func(r result) bool { return r.Way == j.Way && r.Step == j.Step }) {
			list = append(list, result{Host: host, Way: j.Way, Step: j.Step, Verdict: fail, Reason: "nothing is known of it: " + why})
		}
	}
	return list
}

// add takes a result of the machine's. A second one for the same job is a failure:
// only one of them can be true.
func add(found []result, r result) []result {
	i := slices.IndexFunc(found, func(other result) bool { return other.Way == r.Way && other.Step == r.Step })
	if i < 0 {
		return append(found, r)
	}
	found[i].Verdict, found[i].Reason = fail, fmt.Sprintf("two results: %s and %s", found[i].Verdict, r.Verdict)
	return found
}

func failed(results []result) bool {
	return slices.ContainsFunc(results, func(r result) bool { return r.Verdict == fail })
}
