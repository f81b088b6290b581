package isolation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aether/internal/host/isolationprobe"
)

// known reads what the host's own values are. What cannot be read is not there.
func known() outside {
	o := outside{values: map[string]string{}, environment: map[string]bool{}}
	for name, file := range map[string]string{"kernel-boot-id": "/proc/sys/kernel/random/boot_id", "kernel-version": "/proc/version"} {
		if text, err := os.ReadFile(file); err == nil {
			o.values[name] = strings.TrimSpace(string(text))
		}
	}
	for _, kind := range isolationprobe.Namespaces {
		if is, err := os.Readlink("/proc/self/ns/" + kind); err == nil {
			o.values["ns-"+kind] = is
		}
	}
	if name, err := os.Hostname(); err == nil {
		o.values["see-hostname"] = name
	}
	if text, err := os.ReadFile("/etc/shadow"); err == nil {
		o.values["see-shadow"] = isolationprobe.EnvironmentHash(string(text))
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(common, name) && !strings.HasPrefix(name, "LC_") {
			o.environment[isolationprobe.EnvironmentHash(variable)] = true
		}
	}
	return o
}

// common are variables that are no secret and are alike by themselves.
var common = []string{"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "TZ", "TMPDIR", "HOSTNAME", "_", "DEBIAN_FRONTEND"}

// count reads the host's counters.
func count() (counted, error) {
	text, err := isolationprobe.Counters()
	if err != nil {
		return counted{}, err
	}
	c, ok := parseCounted(text)
	if !ok {
		return c, fmt.Errorf("the host's counters are %.80q", text)
	}
	return c, nil
}

// watchTime is between two looks at the host's processes.
const watchTime = 10 * time.Millisecond

// watch looks for a process of the host of a path and with a mark until the context ends, and gives the
// user that it is.
func watch(ctx context.Context, path, mark string) <-chan *int {
	found := make(chan *int, 1)
	go func() {
		for ctx.Err() == nil {
			if user, ok := userOf(path, mark); ok {
				found <- &user
				return
			}
			time.Sleep(watchTime)
		}
		found <- nil
	}()
	return found
}

func userOf(path, mark string) (user int, ok bool) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, false
	}
	for _, p := range all {
		text, err := os.ReadFile(p + "/cmdline")
		// A monitor may have been told the command: only the program itself counts.
		if err != nil || !bytes.HasPrefix(text, []byte(path+"\x00")) || !bytes.Contains(text, []byte(mark)) {
			continue
		}
		status, err := os.ReadFile(p + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if rest, found := strings.CutPrefix(line, "Uid:"); found {
				if _, err := fmt.Sscan(rest, &user); err == nil {
					return user, true
				}
			}
		}
	}
	return 0, false
}
