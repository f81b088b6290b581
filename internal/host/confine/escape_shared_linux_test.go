package confine

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// sharedDir is a directory of the host that images show as they show /usr.
const sharedDir = "/shared"

// sharedFiles: what a cell does with a file that other cells and the host have
// too is seen by none of them. It is tried with the system call filter and
// without, because what the filter refuses must not be all that holds.
func sharedFiles(t *testing.T, s *scene) {
	t.Run("filtered", func(t *testing.T) { shareAll(t, s, true) })
	t.Run("unfiltered", func(t *testing.T) {
		weak := newScene(t, partFilter)
		weak.ready = s.ready
		shareAll(t, weak, false)
	})
}

func shareAll(t *testing.T, s *scene, filtered bool) {
	for _, c := range channels {
		t.Run(c.name, func(t *testing.T) {
			for _, who := range s.whos() {
				p := s.plantShared(t, c)
				got := p.signal(t, c, who, s.boot)
				got.wantApart(t, who.name, c, p.files)
				if filtered && c.rules.filtered {
					got.wantRefused(t, who.name, p.files)
				} else {
					got.wantOwn(t, c, who.name, p.files)
				}
			}
		})
	}
}

// TestEscapeNoticesSharedFiles shows cells the very directory of the host, which
// is how a signal comes through: every channel is then seen, or it proves nothing.
func TestEscapeNoticesSharedFiles(t *testing.T) {
	s := newScene(t, partFilter)
	for _, c := range channels {
		t.Run(c.name, func(t *testing.T) {
			who := s.whos()[len(s.whos())-1] // whom files of the host belong to
			p := s.plantShared(t, c)
			show := func(t *testing.T, edits ...func(*Config)) *Cell {
				return s.boot(t, append(edits, func(config *Config) {
					config.Mounts = append(config.Mounts, Mount{Source: p.dir, Target: sharedDir})
				})...)
			}
			got := p.signal(t, c, who, show)
			for _, file := range p.files {
				name := file.Name
				if filepath.Dir(file.Host) != p.dir {
					continue
				}
				if !got.signalled[name].Passed || !got.other[name] || !got.host[name] || !got.fromHost[name] {
					t.Errorf("%s: signalled %+v; seen by another cell %v, by the host %v, of the host %v", name, got.signalled[name], got.other[name], got.host[name], got.fromHost[name])
				}
			}
		})
	}
}

// planted is an image whose files can be shared, and the files.
type planted struct {
	scene *scene
	base  *Base
	dir   string // the host's, shown at sharedDir
	files []shared
}

// plantShared makes new files for each use: some of what is tried is never undone.
func (s *scene) plantShared(t *testing.T, c channel) planted {
	t.Helper()
	tree, dir := hostTree(t), t.TempDir()
	layer := tree.Layers[0]
	sleep, err := os.ReadFile("/usr/bin/sleep")
	err = errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(dir+"/program", sleep, 0o755), os.Mkdir(dir+"/directory", 0o755),
		os.WriteFile(dir+"/directory/file", []byte("x"), 0o644), os.Mkdir(layer+sharedDir, 0o755),
		os.WriteFile(layer+"/program", sleep, 0o755), os.WriteFile(layer+"/etc/file", []byte("x"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	tree.Binds = append(tree.Binds, Bind{Source: dir, Target: sharedDir})
	p := planted{scene: s, dir: dir}
	if p.base, err = s.host.Prepare(tree); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.base.Close() })
	for _, file := range s.candidates(dir, layer) {
		if c.fits(file.Kind) {
			p.files = append(p.files, file)
		}
	}
	return p
}

func (s *scene) candidates(dir, layer string) []shared {
	list := []shared{
		{"program of the host", sharedDir + "/program", "", "program", dir + "/program"},
		{"directory of the host", sharedDir + "/directory", "file", "directory", dir + "/directory"},
		{"program of a layer", "/program", "", "program", layer + "/program"},
		{"directory of a layer", "/etc", "file", "directory", layer + "/etc"},
	}
	if s.host.Identity.Single {
		return list // whose devices are the host's own: see SECURITY.md
	}
	list = append(list, shared{"device", "/dev/full", "", "device", ""}, shared{"/dev", "/dev", "zero", "device", ""})
	covers := map[string]bool{}
	for _, m := range s.host.proc.masks {
		if path := "/proc/" + m.name; !covers[m.cover] {
			covers[m.cover] = true
			list = append(list, shared{"cover " + m.cover, path, "", "cover", ""})
		}
	}
	return list
}

// verdicts say by which files a signal was made and who has seen it.
type verdicts struct {
	signalled, watched map[string]answer
	own, other, host   map[string]bool
	fromHost           map[string]bool // what a third cell has seen of a process outside
}

// signal has a process of one cell signal, and others in the same cell, in another
// cell and on the host watch; then a process of the host, which a third cell
// watches.
func (p planted) signal(t *testing.T, c channel, who who, boot func(*testing.T, ...func(*Config)) *Cell) (v verdicts) {
	t.Helper()
	s := p.scene
	defer func(base *Base) { s.base = base }(s.base)
	s.base = p.base
	f := s.facts
	f.Sharing = sharing{c.name, p.files}
	cell, other := boot(t), boot(t)
	own, beside := s.startWatcher(t, cell, who, f), s.startWatcher(t, other, who, f)
	look, _ := c.watchAll(p.outside())
	inside := s.start(t, cell, "signaller", who, f)
	decode(t, bufio.NewReader(inside.out), &v.signalled)
	v.host, v.watched = look(), beside.began
	v.own, v.other = own.look(t), beside.look(t)
	if err := inside.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	<-inside.done
	v.fromHost = s.signalOutside(t, p, boot(t), who, f)
	return v
}

// signalOutside has a process of the host signal and a cell watch.
func (s *scene) signalOutside(t *testing.T, p planted, cell *Cell, who who, f facts) map[string]bool {
	t.Helper()
	w := s.startWatcher(t, cell, who, f)
	f.Sharing.Files = p.outside()
	known, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), attackVariable+"=signaller", factsVariable+"="+string(known))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // with what it executes
		cmd.Wait()
	}()
	var signalled map[string]answer
	decode(t, bufio.NewReader(out), &signalled)
	for name, a := range signalled {
		if !a.Passed {
			t.Errorf("%s: the host cannot signal: %s", name, a.Text)
		}
	}
	return w.look(t)
}

// outside are the files as the host names them.
func (p planted) outside() (list []shared) {
	for _, file := range p.files {
		if file.Path = file.Host; file.Path != "" {
			list = append(list, file)
		}
	}
	return list
}

type watching struct {
	running
	from  *bufio.Reader
	began map[string]answer
}

func (s *scene) startWatcher(t *testing.T, cell *Cell, who who, f facts) watching {
	t.Helper()
	w := watching{running: s.start(t, cell, "watcher", who, f)}
	w.from = bufio.NewReader(w.out)
	decode(t, w.from, &w.began)
	return w
}

func (w watching) look(t *testing.T) (seen map[string]bool) {
	t.Helper()
	if err := w.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	decode(t, w.from, &seen)
	return seen
}

func decode(t *testing.T, from *bufio.Reader, to any) {
	t.Helper()
	text, err := from.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(text), to)
	}
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

func (v verdicts) wantApart(t *testing.T, who string, c channel, files []shared) {
	t.Helper()
	for _, file := range files {
		if v.other[file.Name] {
			t.Errorf("%s: %s: another cell sees it", who, file.Name)
		}
		if v.host[file.Name] && !c.rules.hostSees {
			t.Errorf("%s: %s: the host sees it", who, file.Name)
		}
		if v.fromHost[file.Name] && !c.rules.hostSeen {
			t.Errorf("%s: %s: what the host does is seen", who, file.Name)
		}
	}
}

// wantRefused: either the signal or the watch is what the filter refuses.
func (v verdicts) wantRefused(t *testing.T, who string, files []shared) {
	t.Helper()
	for _, file := range files {
		if v.signalled[file.Name].Errno != unix.EINVAL && v.watched[file.Name].Errno != unix.EINVAL {
			t.Errorf("%s: %s: not refused: %+v, %+v", who, file.Name, v.signalled[file.Name], v.watched[file.Name])
		}
	}
}

// wantOwn: in the same cell the signal is seen, if it could be made at all, so
// that nothing holds only because the channel does not work.
func (v verdicts) wantOwn(t *testing.T, c channel, who string, files []shared) {
	t.Helper()
	for _, file := range files {
		if v.signalled[file.Name].Passed && v.watched[file.Name].Passed && !v.own[file.Name] && c.name != "execution" {
			t.Errorf("%s: %s: not seen in the same cell", who, file.Name)
		}
	}
}
