package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// inside is the lab's half in the machine: every job in turn, told on the console.
func inside(ctx context.Context, configFile string) error {
	text, err := os.ReadFile(configFile)
	if err != nil {
		return err
	}
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	out := os.Stdout
	// The kernel's messages would stand in the middle of results.
	if err := errors.Join(os.WriteFile("/proc/sys/kernel/printk", []byte("1"), 0), os.Setenv("PATH", searchPath)); err != nil {
		return err
	}
	for _, way := range ways {
		of := slices.DeleteFunc(slices.Clone(c.Jobs), func(j job) bool { return j.Way != way })
		if len(of) > 0 {
			runWay(ctx, c, of, out)
		}
	}
	_, err = fmt.Fprintf(out, "\n%s\n", endMark)
	return err
}

// runWay does the jobs of one way. What a way needs is there before the census, so
// that only what the jobs leave is new.
func runWay(ctx context.Context, c config, jobs []job, out io.Writer) {
	from, err := stand(ctx, jobs[0].Way, c)
	var before census
	if err == nil {
		before, err = takeCensus()
	}
	for _, j := range jobs {
		t := &turn{ctx: ctx, standing: from, job: j, pace: c.Pace, console: out, before: before}
		r := t.result(err)
		fmt.Fprint(out, r.line())
	}
}

// result does the step, unless the way could not be had.
func (t *turn) result(noWay error) result {
	began := time.Now()
	err := noWay
	if err == nil {
		err = steppers[t.job.Step](t)
	}
	r := result{Way: t.job.Way, Step: t.job.Step, Verdict: pass, Seconds: time.Since(began).Seconds(), Tests: t.tests, Output: t.report}
	switch {
	case err != nil:
		r.Verdict, r.Reason, r.Output = fail, clip(err.Error(), 1000), t.output()
	case t.refusal != "":
		r.Verdict, r.Reason = refused, t.refusal
	}
	return r
}
