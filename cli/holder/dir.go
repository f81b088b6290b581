package holder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"aether/engine"
	"aether/internal/bounded"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// Dir is where the templates of a user are found: for each a directory of its name,
// and beside it a lock that its holder has as long as it lives.
type Dir struct{ path string }

// In is the directory of templates under the user's directory of running things.
func In(running string) Dir { return Dir{filepath.Join(running, "templates")} }

// Manifest is what is known of a template whose holder does not answer.
type Manifest struct {
	Name    string        `json:"name"`
	Holder  int           `json:"holder"` // process id
	Started time.Time     `json:"started"`
	Recipe  engine.Recipe `json:"recipe"`
}

func (d Dir) of(name string) string       { return filepath.Join(d.path, name) }
func (d Dir) lock(name string) string     { return d.of(name) + ".lock" }
func (d Dir) socket(name string) string   { return filepath.Join(d.of(name), "socket") }
func (d Dir) manifest(name string) string { return filepath.Join(d.of(name), "manifest.json") }

func (d Dir) log(name string) string { return filepath.Join(d.of(name), "log") }

// trusted refuses a directory that another user could have planted. One that is not
// there holds no templates.
func (d Dir) trusted() error {
	if err := storedir.Trusted(d.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// maxLog bounds how much of a log is read.
const maxLog = 4096

// Log is the end of what the holder had to say since the template was ready: why
// it ended, if nobody asked it to.
func (d Dir) Log(name string) (string, error) {
	if err := d.trusted(); err != nil {
		return "", err
	}
	file, err := os.Open(d.log(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-maxLog), maxLog))
	return string(text), err
}

// Names lists the templates whose holders live or were killed.
func (d Dir) Names() ([]string, error) {
	if err := d.trusted(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && engine.ValidName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Manifest reads what the holder wrote when it began.
func (d Dir) Manifest(name string) (m Manifest, err error) {
	if err := d.trusted(); err != nil {
		return m, err
	}
	text, err := bounded.ReadFile(d.manifest(name), maxRequest)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", d.manifest(name), err)
	}
	return m, nil
}

// lookTime is how long a lock may be held by somebody who only looks.
const lookTime = 2 * time.Second

// Take makes the directory of a template for a holder, who has it until it ends.
// What a holder that was killed left is removed. Errors: Conflict if the template
// has a holder.
func (d Dir) Take(ctx context.Context, name string) (*Place, error) {
	if err := engine.ValidName(name); err != nil {
		return nil, err
	}
	if err := storedir.Prepare(d.path); err != nil {
		return nil, err
	}
	taken := &sandbox.Error{Class: sandbox.Conflict, Op: "template " + name, Reason: "it exists already", Remedy: "aether template rm " + name}
	if client, err := d.Dial(ctx, name); err == nil {
		client.Close()
		return nil, taken
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	lock, err := storedir.Acquire(ctx, d.lock(name))
	if errors.Is(err, context.DeadlineExceeded) {
		taken.Reason = "it is being prepared or removed"
		taken.Remedy, taken.Retry = "", true
		return nil, taken
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(d.of(name)), os.Mkdir(d.of(name), 0o700)); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return &Place{dir: d, name: name, lock: lock}, nil
}

// Held says whether a holder has the template, in whatever state.
func (d Dir) Held(name string) (bool, error) {
	if err := d.trusted(); err != nil {
		return false, err
	}
	lock, err := storedir.Try(d.lock(name))
	if errors.Is(err, storedir.ErrHeld) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Release()
}

// removeTime is how long a holder may take to end.
const removeTime = 30 * time.Second

// Remove has the holder of a template end, if it lives, and removes what is left.
// Errors: NotFound.
func (d Dir) Remove(ctx context.Context, name string) error {
	if err := engine.ValidName(name); err != nil {
		return err
	}
	if err := d.trusted(); err != nil {
		return err
	}
	if _, err := os.Stat(d.of(name)); errors.Is(err, fs.ErrNotExist) {
		return d.notFound(name)
	}
	if client, err := d.Dial(ctx, name); err == nil {
		err = client.End(ctx)
		client.Close()
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	lock, err := storedir.Acquire(ctx, d.lock(name))
	if errors.Is(err, context.DeadlineExceeded) {
		return d.stuck(name)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(d.of(name)), lock.Release())
}

func (d Dir) stuck(name string) error {
	e := &sandbox.Error{Class: sandbox.Timeout, Op: "template " + name, Reason: "its holder does not end"}
	if m, err := d.Manifest(name); err == nil {
		e.Remedy = fmt.Sprintf("kill -9 %d, then remove it again", m.Holder)
	}
	return e
}

func (d Dir) notFound(name string) error {
	return &sandbox.Error{Class: sandbox.NotFound, Op: "template " + name, Reason: "there is none of this name", Remedy: "see aether template list"}
}

// Place is a template's directory in the hands of its holder.
type Place struct {
	dir  Dir
	name string
	lock *storedir.Lock
}

// Announce writes the manifest, whole or not at all.
func (p *Place) Announce(recipe engine.Recipe) error {
	text, err := json.Marshal(Manifest{Name: p.name, Holder: os.Getpid(), Started: time.Now(), Recipe: recipe})
	if err != nil {
		return err
	}
	draft := p.dir.manifest(p.name) + ".new"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, p.dir.manifest(p.name))
}

// Release removes the directory and gives the lock back. It comes last: until
// then, sandboxes of the template may be there.
func (p *Place) Release() error {
	return errors.Join(os.RemoveAll(p.dir.of(p.name)), p.lock.Release())
}

// Logger keeps what nobody is there to be told in the template's log.
func (p *Place) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(logFile(p.dir.log(p.name)), nil))
}

// logFile is written to by its name, so that there is none until there is something
// to say.
type logFile string

func (f logFile) Write(record []byte) (int, error) {
	file, err := os.OpenFile(string(f), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := file.Write(record)
	return n, errors.Join(err, file.Close())
}
