package start

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"aether/guest"
	"aether/lab"
	"aether/sandbox"
)

// Laps of a start.
const (
	lapCreate    = "create"
	lapBoot      = "boot"
	lapReady     = "guest ready"
	lapExec      = "exec"
	lapFirstByte = "first byte"
	lapEnd       = "command's end"
	lapDestroy   = "destroy"
)

// The first command also tells when the sandbox's kernel and its init have begun.
var firstCommand = guest.Cmd{Path: "cat", Args: []string{"/proc/uptime", "/proc/1/stat"}}

// mark notes when the first byte comes.
type mark struct {
	watch *lab.Watch
	text  bytes.Buffer
}

// maxText is far above what the command has to say; what is inside is not trusted.
const maxText = 64 << 10

func (m *mark) Write(p []byte) (int, error) {
	if m.watch.Sample.First == 0 {
		m.watch.First(lapFirstByte)
	}
	if m.text.Len()+len(p) > maxText {
		return 0, errors.New("the first command says too much")
	}
	return m.text.Write(p)
}

// first runs the first command in a sandbox to its end and gives what it said.
func first(ctx context.Context, w *lab.Watch, in sandbox.Instance) (said string, err error) {
	client := guest.ClientFor(in, guest.ClientOptions{})
	defer client.Close()
	return firstBy(ctx, w, client)
}

func firstBy(ctx context.Context, w *lab.Watch, client *guest.Client) (said string, err error) {
	out := &mark{watch: w}
	cmd := firstCommand
	cmd.Stdout = out
	running, err := client.Start(ctx, cmd)
	w.Lap(lapExec)
	if err != nil {
		return "", err
	}
	status, err := running.Wait()
	if err == nil && (status.Code != 0 || out.text.Len() == 0) {
		err = fmt.Errorf("the first command ended with %+v and said %q", status, out.text.String())
	}
	w.Lap(lapEnd)
	return out.text.String(), err
}

// splitCreate cuts the first lap, the making, where the sandbox has a kernel of its own:
// into what came before that kernel ran, its boot up to the init, and the way from there
// to an answering guest service. A kernel counts in hundredths of a second.
func splitCreate(s *lab.Sample, said string) {
	uptime, initStart, err := parseInside(said)
	host, hostErr := hostUptime()
	if err != nil || hostErr != nil || len(s.Laps) == 0 {
		return // no parts then, but the time is as good
	}
	create := s.Laps[0].Took
	var since time.Duration // the return of Create
	for _, l := range s.Laps[1:] {
		if !l.After {
			since += l.Took
		}
	}
	age := uptime - since // of the kernel, when Create returned
	if host-uptime < time.Second || age <= 0 || age > create || initStart > age {
		return // the host's kernel, or a clock that is not its kernel's
	}
	parts := []lab.Lap{{Name: lapCreate, Took: create - age}, {Name: lapBoot, Took: initStart}, {Name: lapReady, Took: age - initStart}}
	s.Laps = append(parts, s.Laps[1:]...)
}

const tick = 10 * time.Millisecond // of the times in /proc/PID/stat, on every architecture here

// parseInside reads the uptime, and when the init began.
func parseInside(said string) (uptime, initStart time.Duration, err error) {
	first, stat, _ := strings.Cut(said, "\n")
	if uptime, err = parseSeconds(first); err != nil {
		return 0, 0, err
	}
	_, rest, ok := strings.Cut(stat, ") ") // behind the name, which may have spaces
	fields := strings.Fields(rest)
	const startTime = 19 // the field is the 22nd, the second after the name is the first here
	if !ok || len(fields) <= startTime {
		return 0, 0, fmt.Errorf("%.80q is no state of a process", stat)
	}
	ticks, err := strconv.ParseUint(fields[startTime], 10, 32)
	return uptime, time.Duration(ticks) * tick, err
}

func parseSeconds(line string) (time.Duration, error) {
	text, _, _ := strings.Cut(line, " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 || seconds > 1e9 {
		return 0, fmt.Errorf("%.80q is no uptime", line)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func hostUptime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	return parseSeconds(string(text))
}
