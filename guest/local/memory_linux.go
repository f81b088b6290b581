package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"aether/internal/host/proctree"
)

// oomScoreAdjPath is where a process has the kernel prefer it, or others, when memory
// runs out.
const oomScoreAdjPath = "/proc/self/oom_score_adj"

// oomScoreAdj makes the kernel kill commands before the service that runs them. Going
// back to its own value is allowed to every process; going below it is not.
const oomScoreAdj = 500

// openAdjust opens this process's own value and reads it. The file stays open: a
// process that others may not look into cannot open its own later either.
func openAdjust() (file *os.File, value int, err error) {
	if file, err = os.OpenFile(oomScoreAdjPath, os.O_RDWR, 0); err != nil {
		return nil, 0, err
	}
	text := make([]byte, 16)
	n, err := file.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return nil, 0, errors.Join(err, file.Close())
	}
	value, err = strconv.Atoi(strings.TrimSpace(string(text[:n])))
	return file, value, err
}

// expendable starts a process that inherits oomScoreAdj from this one.
func (b *Backend) expendable(start func() (int, error)) (int, error) {
	if b.adjusted >= oomScoreAdj {
		return start()
	}
	if _, err := b.adjust.WriteAt([]byte(strconv.Itoa(oomScoreAdj)), 0); err != nil {
		return 0, err
	}
	pid, err := start()
	if _, back := b.adjust.WriteAt([]byte(strconv.Itoa(b.adjusted)), 0); back != nil && err == nil {
		return 0, errors.Join(back, proctree.Kill(pid))
	}
	return pid, err
}

// oomKills counts the processes of the commands' group that the kernel killed
// because memory was short, whoever's limit was reached; or that the guard did.
func (b *Backend) oomKills() (int64, error) {
	if b.cgroup == "" {
		return b.guarded.Load(), nil
	}
	text, err := os.ReadFile(filepath.Join(b.cgroup, "memory.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // this kernel does not account memory
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		}
	}
	return 0, nil
}
