package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aether/lab"
)

const (
	// warmup rounds fill caches and are not counted.
	warmup = 3
	// breath lets what the kernel removes after a sandbox's end settle, so that
	// it is not charged to whoever comes next.
	breath = 5 * time.Millisecond
)

// measureCold is the time from nothing to the first byte.
func (f *field) measureCold(ctx context.Context) ([]lab.Row, error) {
	contenders := make([]lab.Contender, len(f.entries))
	for i, e := range f.entries {
		contenders[i] = lab.Contender{Name: e.name, Take: e.cold}
	}
	f.say.Say("cold spawn: %d rounds of %d systems", f.opts.Rounds, len(contenders))
	return f.rows(ctx, contenders)
}

// measureExec is the time from the call to the first byte of a program in a
// sandbox that lives already.
func (f *field) measureExec(ctx context.Context) (rows []lab.Row, err error) {
	var contenders []lab.Contender
	for _, e := range f.distinct() {
		sandbox, failed := e.live(ctx)
		if failed != nil {
			return nil, fmt.Errorf("%s: live: %w", e.name, failed)
		}
		defer func() { err = errors.Join(err, sandbox.end()) }()
		if _, failed := sandbox.exec(ctx); failed != nil {
			contenders = append(contenders, lab.Skip(e.name, failed))
			continue
		}
		contenders = append(contenders, lab.Contender{Name: e.name, Take: sandbox.exec})
	}
	f.say.Say("exec: %d rounds of %d systems", f.opts.Rounds, len(contenders))
	return f.rows(ctx, contenders)
}

func (f *field) rows(ctx context.Context, contenders []lab.Contender) ([]lab.Row, error) {
	rows, err := lab.Rounds{Count: f.opts.Rounds, Warmup: warmup, Breath: breath}.Rows(ctx, contenders)
	lab.CompareRows(rows, peers...)
	return rows, err
}
