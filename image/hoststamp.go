package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// hostStamp remembers the state of the host that a skeleton was made from, so
// that the next program need not make the whole plan again. Links are not looked
// at one by one: they cannot change without the time of their directory.
type hostStamp struct {
	Version int      `json:"version"`
	Root    string   `json:"root"`
	Watched []string `json:"watched"`
	State   string   `json:"state"`
	Result  Root     `json:"result"`
}

func stampOf(plan *hostPlan, result Root) (hostStamp, error) {
	stamp := hostStamp{Version: skeletonVersion, Root: plan.root, Watched: slices.Compact(slices.Sorted(slices.Values(plan.watched))), Result: result}
	state, err := stateOf(plan.root, stamp.Watched)
	stamp.State = state
	return stamp, err
}

// stateOf sums up the metadata of files and directories, of which there are some hundreds.
func stateOf(root string, watched []string) (string, error) {
	var state []byte
	for _, name := range watched {
		info, err := os.Lstat(filepath.Join(root, name))
		state = strconv.AppendQuote(state, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		default:
			state = strconv.AppendUint(append(state, ' '), uint64(info.Mode()), 8)
			state = strconv.AppendInt(append(state, ' '), info.Size(), 10)
			state = strconv.AppendInt(append(state, ' '), info.ModTime().UnixNano(), 10)
		}
		state = append(state, '\n')
	}
	sum := sha256.Sum256(state)
	return hex.EncodeToString(sum[:]), nil
}

func (s *Store) stampFile() string { return filepath.Join(s.dir, "host") }

// loadStamp gives the host's root if nothing has changed since it was made. A
// stamp that cannot be read is as good as none: it only saves time.
func (s *Store) loadStamp() (Root, bool) {
	text, err := os.ReadFile(s.stampFile())
	if err != nil {
		return Root{}, false
	}
	var stamp hostStamp
	if json.Unmarshal(text, &stamp) != nil || stamp.Version != skeletonVersion || stamp.Root != s.hostRoot {
		return Root{}, false
	}
	for _, dir := range stamp.Result.Layers {
		if there, err := exists(dir); !there || err != nil {
			return Root{}, false
		}
	}
	state, err := stateOf(s.hostRoot, stamp.Watched)
	return stamp.Result, err == nil && state == stamp.State
}

func (s *Store) saveStamp(ctx context.Context, stamp hostStamp) error {
	text, err := json.Marshal(stamp)
	if err != nil {
		return err
	}
	lock, err := s.lockRecords(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.replaceFile(s.stampFile(), text), lock.Release())
}
