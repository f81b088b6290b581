package image

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"aether/sandbox"
)

const (
	userName = "user"
	userHome = "/home/user"
	userID   = 1000

	shellPath = "bin/bash"
)

// planOwn adds what every sandbox on the host's system has of its own.
func (p *hostPlan) planOwn() {
	for _, dir := range []string{"dev", "etc", "home", "mnt", "opt", "proc", "run", "srv", "var", "var/cache", "var/lib", "var/log"} {
		p.addDir(dir, 0o755)
	}
	p.addDir("root", 0o700)
	p.addDir("tmp", fs.ModeSticky|0o777)
	p.addDir("var/tmp", fs.ModeSticky|0o777)
	p.items = append(p.items,
		hostItem{name: "home/user", mode: fs.ModeDir | 0o755, id: userID},
		hostItem{name: "var/run", mode: fs.ModeSymlink, target: "../run"},
		hostItem{name: "etc/mtab", mode: fs.ModeSymlink, target: "../proc/self/mounts"})
	p.planUsers()
	p.addText("etc/hostname", "sandbox\n")
	p.addText("etc/hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost\n")
	p.addText("etc/resolv.conf", "nameserver "+sandbox.Gateway+"\n") // where there is no network, it is not reached
	p.addText("etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n")
	p.addText("etc/profile", "PATH="+defaultPath+"\nexport PATH\n")
}

func (p *hostPlan) planUsers() {
	shell := "/bin/sh"
	if there, err := exists(filepath.Join(p.root, shellPath)); there && err == nil {
		shell = "/" + shellPath
	}
	p.addText("etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:%[1]s\n%[2]s:x:%[3]d:%[3]d::%[4]s:%[1]s\n"+
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", shell, userName, userID, userHome))
	p.addText("etc/group", fmt.Sprintf("root:x:0:\ntty:x:5:\n%s:x:%d:\nnogroup:x:65534:\n", userName, userID))
}
