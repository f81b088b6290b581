package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// steppers are the steps, by name.
var steppers = map[string]func(*turn) error{
	stepFirst:       (*turn).first,
	stepDoctor:      (*turn).doctor,
	stepLimits:      (*turn).limits,
	stepTemplate:    (*turn).template,
	stepService:     (*turn).service,
	stepOlder:       (*turn).goTests,
	stepConformance: (*turn).goTests,
	stepEscape:      (*turn).goTests,
	stepFork:        (*turn).goTests,
	stepOwn:         (*turn).goTests,
	stepRemedy:      (*turn).remedy,
	stepLeaks:       (*turn).leaks,
	stepBench:       (*turn).bench,
	stepCrowd:       (*turn).crowd,
}

var (
	showID  = []string{"aether", "run", "--", "sh", "-c", "id"}
	product = []string{"aether", "run", "--", "python3", "-c", "print(6*7)"}
)

// first is what a reader of the README does first.
func (t *turn) first() error {
	if t.job.Refusal != "" {
		return t.areRefused(125, showID, product)
	}
	return errors.Join(
		t.succeeds(`^uid=\d+`, showID...),
		t.succeeds(`^42\n$`, product...),
		t.succeeds(`clone3`, "aether", "run", "--explain", "--", "true"))
}

// doctor says by its exit status whether the engine can run.
func (t *turn) doctor() error {
	if t.job.Refusal == "" {
		return t.succeeds(`can run on this host`, "aether", "doctor")
	}
	a, err := t.do("aether", "doctor")
	i := strings.Index(a.stdout, "mends: ")
	switch {
	case err != nil:
		return err
	case a.code != 1:
		return fmt.Errorf("aether doctor ended with %d where the engine cannot run", a.code)
	case i < 0:
		return errors.New("aether doctor says of nothing what would mend it")
	}
	t.refusal, _, _ = strings.Cut(a.stdout[i:], "\n")
	return nil
}

const (
	hungry = "x = bytearray(512 << 20)"
	crowd  = "for i in $(seq 40); do sleep 2 & done; wait"
)

// limits asks the engine itself: another driver could hold what it cannot.
func (t *turn) limits() error {
	limited := func(flag, value string, argv ...string) []string {
		return append([]string{"aether", "run", "--driver", "cell", "--json", flag, value, "--"}, argv...)
	}
	memory := limited("--memory", "64M", "python3", "-c", hungry)
	processes := limited("--pids", "16", "sh", "-c", crowd)
	processor := limited("--cpus", "0.5", "true")
	if t.job.Refusal != "" {
		return errors.Join(t.areRefused(125, memory, processor), t.boundOrRefused(processes))
	}
	return errors.Join(t.reaches("memory", memory), t.reaches("processes", processes), t.succeeds(`"exit": 0`, processor...))
}

// boundOrRefused is for the processes of a user without groups: they can be bounded
// in other ways.
func (t *turn) boundOrRefused(argv []string) error {
	a, err := t.do(argv...)
	if err == nil && a.code != 125 && !strings.Contains(a.stdout, "Cannot fork") {
		return fmt.Errorf("%s: the limit did not hold and was not refused", strings.Join(argv, " "))
	}
	return err
}

// reaches wants a command to be stopped by a limit.
func (t *turn) reaches(limit string, argv []string) error {
	a, err := t.do(argv...)
	if err != nil {
		return err
	}
	var told struct {
		Exit    int      `json:"exit"`
		Reached []string `json:"limits_reached"`
	}
	if err := json.Unmarshal([]byte(a.stdout), &told); err != nil {
		return fmt.Errorf("%s: no JSON: %s", strings.Join(argv, " "), lastLines(a.stderr, 1))
	}
	if told.Exit == 0 || !slices.Contains(told.Reached, limit) {
		return fmt.Errorf("%s: the limit of %s did not hold: exit %d, reached %q", strings.Join(argv, " "), limit, told.Exit, told.Reached)
	}
	return nil
}

// template is the README's: prepared once, forked twice, shown and removed.
func (t *turn) template() error {
	prepare := []string{"aether", "template", "prepare", "work", "--code", "python", labDir + "/setup.py"}
	if t.job.Refusal != "" {
		return t.areRefused(1, prepare)
	}
	predict := func(values string) []string {
		return []string{"aether", "run", "--template", "work", "-c", "model.predict(" + values + ")"}
	}
	if err := t.succeeds(``, prepare...); err != nil {
		return err
	}
	return errors.Join(
		t.succeeds(`^\[6, 12, 18\]\n$`, predict("[1, 2, 3]")...),
		t.succeeds(`^\[24, 30, 36\]\n$`, predict("[4, 5, 6]")...),
		t.succeeds(`.`, "aether", "template", "show", "work", "--tree"),
		t.succeeds(``, "aether", "template", "rm", "work"))
}

// goTests runs the step's choice of tests and counts them.
func (t *turn) goTests() (err error) {
	t.tests = &tally{}
	for _, s := range suites[t.job.Step] {
		err = errors.Join(err, t.goTest(s))
	}
	if err == nil && t.tests.Passed+t.tests.Skipped == 0 {
		return errors.New("no test ran")
	}
	return err
}

// testTime is how long the tests of one folder may take on a real machine.
const testTime = 4 * time.Minute

func (t *turn) goTest(s suite) error {
	limit := time.Duration(t.pace) * testTime
	argv := []string{s.program(), "-test.v", "-test.timeout", limit.String()}
	if t.pace > 1 {
		argv = append(argv, "-test.short")
	}
	if s.run != "" {
		argv = append(argv, "-test.run", s.run)
	}
	if s.skip != "" {
		argv = append(argv, "-test.skip", s.skip)
	}
	a, err := t.within(limit+time.Minute, s.dir(), argv...)
	count, failures := readTests(strings.NewReader(a.stdout + a.stderr))
	t.tests.join(count)
	t.failures = append(t.failures, failures...)
	if err == nil && a.code != 0 {
		err = fmt.Errorf("the tests of %s ended with %d", s.folder, a.code)
	}
	return err
}

// benchTime and crowdTime are how long the measuring may take on a real machine.
const (
	benchTime = 5 * time.Minute
	crowdTime = 10 * time.Minute
)

// bench measures cells and forks beside bwrap. Only the ratios mean anything in an
// emulated machine.
func (t *turn) bench() error {
	return t.measure(benchTime, "bench", "-rounds", "15", "-idle", "30", "-only", "cell,cell-fresh,cell+service,bwrap")
}

// crowd measures whether a cell costs more beside many. Of an emulated machine too, the
// ratios are the machine's: nobody else runs in there.
func (t *turn) crowd() error {
	return t.measure(crowdTime, "aether", "bench", "scale", "--rounds", "25")
}

// measure runs a program whose output is the result.
func (t *turn) measure(limit time.Duration, argv ...string) error {
	a, err := t.within(time.Duration(t.pace)*limit, "", argv...)
	if err == nil && a.code != 0 {
		err = fmt.Errorf("%s ended with %d: %s", strings.Join(argv, " "), a.code, lastLines(a.stderr, 1))
	}
	t.report = a.stdout
	return err
}

// remedy does in a container what the refusal there says would mend it.
func (t *turn) remedy() error {
	a, err := t.do(showID...)
	if err != nil {
		return err
	}
	options := remedyOptions(a.stderr)
	if len(options) == 0 {
		return fmt.Errorf("the refusal names no options of docker run: %s", lastLines(a.stderr, 1))
	}
	t.job.Refusal, t.standing.prefix = "", container(options)
	return errors.Join(t.first(), t.doctor(), t.succeeds(`^\[6, 12, 18\]\n$`, "sh", "-c", inOneContainer))
}

// inOneContainer is the README's template where nothing outlives a command.
const inOneContainer = `aether template prepare work --code python ` + labDir + `/setup.py >&2 && aether run --template work -c 'model.predict([1, 2, 3])'`
