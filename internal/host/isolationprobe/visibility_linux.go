package isolationprobe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var visibilityProbes = []probe{
	{"see-process", seeProcess},
	{"see-process-root", seeProcessRoot},
	{"see-file", seeFile},
	{"change-file", changeFile},
	{"see-hostname", func(*looker) Sighting {
		name, err := os.Hostname()
		if err != nil {
			return unknown("%v", err)
		}
		return value(name)
	}},
	{"see-mounts", seeMounts},
	{"see-environment", seeEnvironment},
	{"see-shadow", seeShadow},
	{"see-keys", readable("/proc/keys")},
	{"see-interrupts", readable("/proc/interrupts", "/proc/timer_list", "/proc/sched_debug")},
	{"see-disks", seeDisks},
}

// maxProcesses is how many are looked at.
const maxProcesses = 4096

func processes() []string {
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	return list[:min(len(list), maxProcesses)]
}

// find gives the process of the host that was planted, or nothing.
func (l *looker) find() (dir string, of int) {
	all := processes()
	for _, p := range all {
		if text, err := read(p + "/cmdline"); err == nil && bytes.Contains(text, []byte(l.Mark)) {
			return p, len(all)
		}
	}
	return "", len(all)
}

func seeProcess(l *looker) Sighting {
	p, of := l.find()
	switch {
	case of == 0:
		return unknown("no process is seen at all, not even this one")
	case p != "":
		return open("%s is a process of the host", p)
	}
	return closed("not among %d processes", of)
}

// seeProcessRoot looks for the planted file by way of the roots of all processes.
func seeProcessRoot(l *looker) Sighting {
	own, err := os.Stat("/")
	if err != nil {
		return unknown("%v", err)
	}
	for _, p := range processes() {
		root, err := os.Stat(p + "/root/.")
		if err != nil || os.SameFile(own, root) {
			continue
		}
		if _, err := os.Stat(p + "/root" + l.File); err == nil {
			return open("%s/root is the host's", p)
		}
	}
	return closed("no process has the host's root")
}

func seeFile(l *looker) Sighting {
	_, err := readSome(l.File)
	return whether(err == nil, "read: "+result(err))
}

func changeFile(l *looker) Sighting {
	f, err := os.OpenFile(l.File, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return whether(err == nil, "open for writing: "+result(err))
}

// seeMounts looks for directories that nobody but the host has mounts from or on.
func seeMounts(l *looker) Sighting {
	text, err := read("/proc/self/mountinfo")
	if err != nil {
		return unknown("%v", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 10 {
			continue
		}
		at, options := fields[4], fields[5]
		if root := fields[3]; at == "/" && root == "/" && strings.HasPrefix(fields[len(fields)-2], "/dev/") && strings.HasPrefix(options, "rw") {
			return open("its root is the whole of %s", fields[len(fields)-2])
		}
		if at == filepath.Dir(l.File) || strings.HasSuffix(at, "/docker.sock") || strings.HasSuffix(at, "/containerd.sock") {
			return open("%s is mounted", at)
		}
	}
	return closed("no mount of the host's root or of its daemons' sockets")
}

// EnvironmentHash is what is told of a variable: its value may be a secret.
func EnvironmentHash(variable string) string {
	sum := sha256.Sum256([]byte(variable))
	return hex.EncodeToString(sum[:4])
}

func seeEnvironment(*looker) Sighting {
	var list []string
	for _, variable := range os.Environ() {
		list = append(list, EnvironmentHash(variable))
	}
	return value(strings.Join(list[:min(len(list), 25)], " "))
}

// seeShadow gives a hash of the passwords' file, if it can be read.
func seeShadow(*looker) Sighting {
	text, err := read("/etc/shadow")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return closed("%v", err)
	}
	if err != nil {
		return unknown("%v", err)
	}
	return value(EnvironmentHash(string(text)))
}

// seeDisks gives the disks that the kernel tells of.
func seeDisks(*looker) Sighting {
	text, err := read("/proc/partitions")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return closed("%v", err)
	}
	if err != nil {
		return unknown("%v", err)
	}
	lines := strings.Fields(string(text))
	return whether(len(lines) > 4, "/proc/partitions has "+strings.Join(lines[min(4, len(lines)):min(8, len(lines))], " "))
}
