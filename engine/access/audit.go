package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

const (
	auditName = "audit"

	defaultAuditBytes = 16 << 20
	defaultAuditFiles = 8

	// maxAuditText bounds what a caller can have written of each of its words.
	maxAuditText = 1024

	// logAgain is when a failure that goes on is logged once more.
	logAgain = time.Minute
)

// Entry is one call: a line of JSON in the audit trail.
type Entry struct {
	Time time.Time `json:"time"`
	// Who called, as Caller has it. A call that was refused before anybody knew who
	// it is has what it said, as the id of its key, or nothing.
	Who      string `json:"who"`
	From     string `json:"from,omitempty"` // the address that it came from
	Tenant   string `json:"tenant,omitempty"`
	Operator bool   `json:"operator,omitempty"`
	// What was called, as "sandbox.create", and On is the id or name of its object.
	What string `json:"what"`
	On   string `json:"on,omitempty"`
	// Result is "ok" or the class of the error, of which Reason is the text.
	Result   string        `json:"result"`
	Reason   string        `json:"reason,omitempty"`
	Duration time.Duration `json:"duration_ns"`
}

// AuditOptions bound the trail. Zero is a default.
type AuditOptions struct {
	// FileBytes is how large a file grows before the next is begun, and Files how many
	// are kept.
	FileBytes int64
	Files     int
	Logger    *slog.Logger
}

// Audit is the trail of all calls of an engine, in files that are begun anew in turn.
// A line is in its file before Record returns, so that the end of the program does not
// lose it; it is on disk shortly after, so that no call waits for that.
type Audit struct {
	journal *state.Journal
	log     *slog.Logger
	unsaved chan struct{} // has one while lines are not on disk
	end     context.CancelFunc
	ended   chan struct{}
}

// OpenAudit goes on with the trail of a state directory.
func OpenAudit(dir *state.Dir, opts AuditOptions) (*Audit, error) {
	bounds := state.JournalOptions{FileBytes: opts.FileBytes, Files: opts.Files}
	if bounds.FileBytes <= 0 {
		bounds.FileBytes = defaultAuditBytes
	}
	if bounds.Files <= 0 {
		bounds.Files = defaultAuditFiles
	}
	journal, err := dir.OpenJournal(auditName, bounds)
	if err != nil {
		return nil, fmt.Errorf("access: audit: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	a := &Audit{journal: journal, log: opts.Logger, unsaved: make(chan struct{}, 1), end: end, ended: make(chan struct{})}
	if a.log == nil {
		a.log = slog.Default()
	}
	go a.save(ctx)
	return a, nil
}

// Record writes that a call began then and has ended now, with that error or none.
// What the caller said is shortened where it is long.
func (a *Audit) Record(who Caller, from, what, on string, began time.Time, result error) error {
	entry := Entry{Time: began.UTC(), Who: shorten(who.Name), From: shorten(from), Tenant: shorten(who.Tenant), Operator: who.Operator,
		What: shorten(what), On: shorten(on), Result: "ok", Duration: time.Since(began)}
	if result != nil {
		entry.Result, entry.Reason = sandbox.ClassOf(result).String(), shorten(result.Error())
	}
	if err := a.journal.Append(entry); err != nil {
		return fmt.Errorf("access: audit: %w", err)
	}
	select {
	case a.unsaved <- struct{}{}:
	default:
	}
	return nil
}

// shorten bounds a text. It may be of any bytes: JSON has those that are no letters
// replaced.
func shorten(text string) string {
	const mark = "..."
	if len(text) > maxAuditText {
		text = text[:maxAuditText-len(mark)] + mark
	}
	return text
}

// Each gives every entry that there still is, oldest first, until an error.
func (a *Audit) Each(visit func(Entry) error) error {
	return a.journal.Replay(func(line json.RawMessage) error {
		var entry Entry
		if err := json.Unmarshal(line, &entry); err != nil {
			return fmt.Errorf("access: audit: %w", err)
		}
		return visit(entry)
	})
}

// errPageFull ends the reading of a page.
var errPageFull = errors.New("the page is full")

// Page gives at most so many entries after a place, empty for the beginning, oldest first,
// and the place from which the next page goes on, empty if there is nothing more yet.
// Errors: Invalid for a place that is none.
func (a *Audit) Page(after string, limit int) (page []Entry, next string, err error) {
	from := state.Place{}
	if after != "" {
		if n, err := fmt.Sscanf(after, "%d.%d", &from.File, &from.Lines); n != 2 || err != nil || from.File < 0 || from.Lines < 0 {
			return nil, "", sandbox.Invalidf("after", "%.40q is not the next of a page", after)
		}
	}
	page = []Entry{}
	err = a.journal.ReplayFrom(from, func(after state.Place, line json.RawMessage) error {
		if len(page) == limit {
			next = fmt.Sprintf("%d.%d", from.File, from.Lines)
			return errPageFull
		}
		var entry Entry
		if err := json.Unmarshal(line, &entry); err != nil {
			return fmt.Errorf("access: audit: %w", err)
		}
		page, from = append(page, entry), after
		return nil
	})
	if errors.Is(err, errPageFull) {
		err = nil
	}
	return page, next, err
}

// save has lines on disk, as many at once as there are by then.
func (a *Audit) save(ctx context.Context) {
	defer close(a.ended)
	var logged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.unsaved:
		}
		err := a.journal.Sync()
		switch {
		case err == nil:
			logged = time.Time{}
		case time.Since(logged) > logAgain:
			a.log.Error("access: the audit trail is not on disk", "err", err)
			logged = time.Now()
		}
	}
}

// Close has everything on disk.
func (a *Audit) Close() error {
	a.end()
	<-a.ended
	return errors.Join(a.journal.Sync(), a.journal.Close())
}
