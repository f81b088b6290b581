package state

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"aether/sandbox"
)

// JournalOptions bound a journal.
type JournalOptions struct {
	// FileBytes is how large a file grows before the next is begun, and Files how many
	// are kept.
	FileBytes int64
	Files     int
	// Durable has every line on disk before Append returns. Lines that are appended at
	// once share the wait for it.
	Durable bool
}

// maxLine bounds one line of a journal.
const maxLine = 64 << 10

// Journal is an append-only list of JSON lines in files that are begun anew in turn.
type Journal struct {
	dir  *Dir
	name string
	opts JournalOptions

	mu      sync.Mutex
	waiting *commit // lines that nobody writes yet
	writing bool
	number  int
	size    int64
	closed  bool
	idle    *sync.Cond

	// fileMu is held while the file is replaced, closed or synced. Whoever writes reads
	// file without it: there is one, and it is the one that replaces.
	fileMu sync.Mutex
	file   *os.File
}

// commit is lines that go to disk together.
type commit struct {
	lines []byte
	done  chan struct{}
	err   error
}

var errJournalClosed = errors.New("the journal is closed")

// OpenJournal goes on with the journal of a name. A last line that was not written
// whole is cut off.
func (d *Dir) OpenJournal(name string, opts JournalOptions) (*Journal, error) {
	j := &Journal{dir: d, name: name, opts: opts, waiting: newCommit()}
	j.idle = sync.NewCond(&j.mu)
	numbers, err := j.numbers()
	if err == nil {
		j.number = 1
		if len(numbers) > 0 {
			j.number = numbers[len(numbers)-1]
		}
		err = j.openFile()
	}
	if err != nil {
		return nil, fmt.Errorf("state: open the journal %s: %w", name, err)
	}
	return j, nil
}

func newCommit() *commit { return &commit{done: make(chan struct{})} }

func (j *Journal) path(number int) string {
	return filepath.Join(j.dir.path, fmt.Sprintf("%s.%d", j.name, number))
}

// numbers are those of the files that there are, oldest first.
func (j *Journal) numbers() (list []int, err error) {
	entries, err := os.ReadDir(j.dir.path)
	for _, entry := range entries {
		if rest, ok := strings.CutPrefix(entry.Name(), j.name+"."); ok {
			if n, err := strconv.Atoi(rest); err == nil && n > 0 {
				list = append(list, n)
			}
		}
	}
	slices.Sort(list)
	return list, err
}

// openFile opens the newest file, without a torn last line.
func (j *Journal) openFile() error {
	file, err := os.OpenFile(j.path(j.number), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	whole, err := wholeLines(file)
	if err == nil {
		err = file.Truncate(whole)
	}
	if err == nil {
		_, err = file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	j.file, j.size = file, whole
	return nil
}

// wholeLines is where the last line that was written whole ends.
func wholeLines(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, maxLine+1)
	start := max(0, info.Size()-int64(len(buf)))
	n, err := file.ReadAt(buf, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return start + int64(bytes.LastIndexByte(buf[:n], '\n')+1), nil
}

// Append adds a line. Errors: Exhausted if the disk is full or the line too long.
func (j *Journal) Append(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("state: journal %s: %w", j.name, err)
	}
	if len(text) > maxLine {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "state: journal " + j.name, Reason: fmt.Sprintf("a line of %d bytes is over %d", len(text), maxLine)}
	}
	mine, lead, err := j.join(append(text, '\n'))
	if err != nil {
		return fmt.Errorf("state: journal %s: %w", j.name, err)
	}
	if lead {
		j.lead()
	}
	<-mine.done
	if mine.err != nil {
		return fmt.Errorf("state: journal %s: %w", j.name, Full(mine.err))
	}
	return nil
}

// join adds a line to those that wait, and says whether the caller is to write.
func (j *Journal) join(text []byte) (mine *commit, lead bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, false, errJournalClosed
	}
	j.waiting.lines = append(j.waiting.lines, text...)
	mine, lead = j.waiting, !j.writing
	j.writing = true
	return mine, lead, nil
}

// lead writes what waits until nothing does.
func (j *Journal) lead() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.waiting.lines) > 0 {
		now := j.waiting
		j.waiting = newCommit()
		j.mu.Unlock()
		now.err = j.write(now.lines)
		close(now.done)
		j.mu.Lock()
	}
	j.writing = false
	j.idle.Broadcast()
}

// write is called by one at a time.
func (j *Journal) write(lines []byte) error {
	if j.size >= j.opts.FileBytes {
		if err := j.turn(); err != nil {
			return err
		}
	}
	err := j.dir.disk.append(j.file, lines)
	if err == nil && j.opts.Durable {
		err = j.dir.disk.syncFile(j.file)
	}
	if err != nil {
		// What was written of it must not be found later: nobody was told that it is there.
		return errors.Join(err, j.file.Truncate(j.size), seekTo(j.file, j.size))
	}
	j.size += int64(len(lines))
	return nil
}

func seekTo(file *os.File, at int64) error {
	_, err := file.Seek(at, io.SeekStart)
	return err
}

// turn begins the next file and removes the oldest.
func (j *Journal) turn() error {
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	old := j.file
	j.number++
	if err := j.openFile(); err != nil {
		j.number--
		return err
	}
	// Sync reaches the newest file alone.
	err := errors.Join(j.dir.disk.syncFile(old), old.Close(), j.dir.disk.sync(j.dir.path))
	numbers, listed := j.numbers()
	err = errors.Join(err, listed)
	for len(numbers) > max(1, j.opts.Files) {
		err = errors.Join(err, j.dir.disk.removeAll(j.path(numbers[0])))
		numbers = numbers[1:]
	}
	return err
}

// Sync has every line on disk that was appended before, for journals that are not
// Durable. Nobody who appends meanwhile waits for it.
func (j *Journal) Sync() error {
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	if err := j.dir.disk.syncFile(j.file); err != nil {
		return fmt.Errorf("state: sync the journal %s: %w", j.name, Full(err))
	}
	return nil
}

// Replay gives every line that was written, oldest first.
func (j *Journal) Replay(line func(json.RawMessage) error) error {
	return j.ReplayFrom(Place{}, func(_ Place, text json.RawMessage) error { return line(text) })
}

// Place is between two lines of a journal: in a file, after so many lines of it. It stays
// what it is while the journal grows, until its file is gone.
type Place struct{ File, Lines int }

// ReplayFrom gives every line that was written after a place, oldest first, with the place
// after it. If the file of the place is gone, it begins with the oldest line that is there.
func (j *Journal) ReplayFrom(from Place, line func(after Place, text json.RawMessage) error) error {
	numbers, err := j.numbers()
	for _, n := range numbers {
		at := Place{File: n}
		if n < from.File {
			continue
		}
		if n == from.File {
			at = from
		}
		if err = errors.Join(err, j.replayFile(at, line)); err != nil {
			return fmt.Errorf("state: replay the journal %s: %w", j.name, err)
		}
	}
	return err
}

func (j *Journal) replayFile(from Place, line func(Place, json.RawMessage) error) error {
	file, err := os.Open(j.path(from.File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was the oldest and is gone by now
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine+1)
	for at := 1; lines.Scan(); at++ {
		if at <= from.Lines || !json.Valid(lines.Bytes()) {
			continue // or it was torn by a loss of power
		}
		if err := line(Place{from.File, at}, lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Close waits for the lines that are being written.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for j.writing {
		j.idle.Wait()
	}
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	return j.file.Close()
}
