package list

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"aether/internal/bounded"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

const (
	cacheFormat = 1
	// goodFor is how long an answer holds, and soonGone how long one that lacks something.
	goodFor  = time.Hour
	soonGone = time.Minute
)

// Cache keeps answers in a directory, one for each environment that tools could answer
// differently in. It keeps no secret: a Credential that comes from it is not Known. Many
// programs may use it at once.
type Cache struct {
	// Dir is a directory for it alone, that is made if it is missing.
	Dir string
	// Env is the environment that the answers are for; nil is that of this program.
	Env []string

	now func() time.Time // time.Now if it is nil
}

type cached struct {
	Format int       `json:"format"`
	At     time.Time `json:"at"`
	List   List      `json:"list"`
}

// Packages gives the list that is kept, or asks for it anew and keeps that. Who needs
// credentials calls the function Packages. Errors: those of that; a list that could not
// be kept comes with the reason.
func (c Cache) Packages(ctx context.Context, o Options, refresh bool) (List, error) {
	if !refresh {
		if l, ok := c.Load(NamePackages); ok {
			return l, nil
		}
	}
	l, err := Packages(ctx, o)
	if err != nil {
		return List{}, err
	}
	return l, c.Store(l)
}

// Load gives a list that is kept and still good. One that is damaged is as if there were
// none.
func (c Cache) Load(name string) (List, bool) {
	if !sandbox.IsListName(name) || storedir.Trusted(c.Dir) != nil {
		return List{}, false
	}
	text, err := bounded.ReadFile(c.path(name), maxPage)
	if err != nil {
		return List{}, false
	}
	l, err := decodeCached(text, c.time())
	return l, err == nil && l.Name == name
}

func decodeCached(text []byte, now time.Time) (List, error) {
	var kept cached
	if err := json.Unmarshal(text, &kept); err != nil {
		return List{}, err
	}
	limit := goodFor
	if kept.List.Incomplete {
		limit = soonGone
	}
	if age := now.Sub(kept.At); kept.Format != cacheFormat || age < 0 || age >= limit {
		return List{}, errors.New("it is too old, or of another format")
	}
	return kept.List, kept.List.check()
}

// Store keeps a list, without its secrets. Who reads at any moment finds the old one or
// the new one.
func (c Cache) Store(l List) (err error) {
	if err := l.check(); err != nil {
		return err
	}
	if err := storedir.Prepare(c.Dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("list: keep %s: %w", l.Name, err)
		}
	}()
	text, err := json.Marshal(cached{cacheFormat, c.time().UTC(), l})
	if err != nil {
		return err
	}
	if err := c.removeOld(); err != nil {
		return err
	}
	return replace(c.path(l.Name), text)
}

func replace(path string, text []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(path), "*.draft")
	if err != nil {
		return err
	}
	_, err = draft.Write(text)
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}

// removeOld removes what is good no more, and drafts of programs that were killed.
func (c Cache) removeOld() error {
	entries, err := os.ReadDir(c.Dir)
	for _, e := range entries {
		info, statErr := e.Info()
		if statErr != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < goodFor {
			continue // another program may have removed it just now
		}
		if removeErr := os.Remove(filepath.Join(c.Dir, e.Name())); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

func (c Cache) path(name string) string {
	env := environment(c.Env)
	if env == nil {
		env = os.Environ()
	}
	return filepath.Join(c.Dir, name+"-"+env.fingerprint()+".json")
}

func (c Cache) time() time.Time {
	if c.now != nil {
		return c.now()
	}
	return time.Now()
}
