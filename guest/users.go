package guest

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	"aether/sandbox"
)

const (
	// maxGroups bounds the groups that a sandbox's files can give a process.
	maxGroups = 256
	// maxUserFile bounds what is read of /etc/passwd and /etc/group.
	maxUserFile = 1 << 20
)

// account is a user of the sandbox.
type account struct {
	name        string
	uid, gid    uint32
	groups      []uint32
	home, shell string
}

// findAccount looks a user up in the contents of passwd and group: a name, or a
// number, or uid:gid. A number needs no entry. Both files are the sandbox's and
// may hold anything; what is not an entry is passed over.
func findAccount(passwd, group []byte, who string) (account, error) {
	uid, gid, numeric := parseIDs(who)
	a, found := account{name: who, uid: uid, gid: gid, home: "/", shell: "/bin/sh"}, false
	for f := range fields(passwd, 7, mention(who, uid, numeric)) {
		id, ok := parseID(f[2])
		own, okay := parseID(f[3])
		if !ok || !okay || (f[0] != who && (!numeric || id != uid)) {
			continue
		}
		a, found = account{name: f[0], uid: id, gid: own, home: f[5], shell: f[6]}, true
		break
	}
	switch {
	case !found && who == "root":
		a.home = "/root" // an image without any users still has its kernel's
	case !found && !numeric:
		return account{}, unauthenticated("user", strconv.Quote(clip(who))+" is no user of this sandbox")
	case numeric && strings.Contains(who, ":"):
		a.gid = gid
	}
	if !strings.HasPrefix(a.home, "/") {
		a.home = "/"
	}
	if !strings.HasPrefix(a.shell, "/") {
		a.shell = "/bin/sh"
	}
	a.groups = groupsOf(group, a)
	return a, nil
}

func groupsOf(group []byte, a account) []uint32 {
	groups := []uint32{a.gid}
	for f := range fields(group, 4, a.name) {
		id, ok := parseID(f[2])
		if !ok || id == a.gid || !lists(f[3], a.name) {
			continue
		}
		if groups = append(groups, id); len(groups) == maxGroups {
			break
		}
	}
	return groups
}

func lists(members, name string) bool {
	for member := range strings.SplitSeq(members, ",") {
		if member == name {
			return true
		}
	}
	return false
}

// names maps the ids of a passwd or group file to their first names.
func names(data []byte) map[uint32]string {
	all := map[uint32]string{}
	for f := range fields(data, 3, ":") {
		id, ok := parseID(f[2])
		if _, taken := all[id]; ok && !taken {
			all[id] = f[0]
		}
	}
	return all
}

// mention is the text that the entry of a user cannot be without.
func mention(who string, uid uint32, numeric bool) string {
	if numeric {
		return strconv.FormatUint(uint64(uid), 10)
	}
	return who
}

// fields yields the lines that have at least n fields and a name. Those without
// the text are passed over unread: this is on the way of every command.
func fields(data []byte, n int, text string) iter.Seq[[]string] {
	want := []byte(text)
	return func(yield func([]string) bool) {
		for line := range bytes.Lines(data) {
			if !bytes.Contains(line, want) || bytes.IndexByte(line, 0) >= 0 || bytes.Count(line, []byte(":")) > 16 {
				continue
			}
			f := strings.Split(strings.TrimSpace(string(line)), ":")
			if len(f) < n || f[0] == "" || f[0][0] == '#' {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}

// parseIDs reads "uid" or "uid:gid"; without a group it is that of the number.
func parseIDs(who string) (uid, gid uint32, ok bool) {
	user, group, both := strings.Cut(who, ":")
	if uid, ok = parseID(user); !ok || !both {
		return uid, uid, ok
	}
	gid, ok = parseID(group)
	return uid, gid, ok
}

// parseID leaves the last number out: to the kernel it means "no change".
func parseID(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n != 1<<32-1
}

func clip(s string) string { return s[:min(len(s), 80)] }

// homePath makes a path of a request absolute: "~" and relative ones start at
// the user's home, an empty one is the default.
func (a account) homePath(name, fallback string) (string, error) {
	if name == "" {
		name = fallback
	}
	switch rest, tilde := strings.CutPrefix(name, "~"); {
	case strings.ContainsRune(name, 0):
		return "", sandbox.Invalidf("path", "it holds a zero byte")
	case tilde && rest != "" && rest[0] != '/':
		return "", sandbox.Invalidf("path", "%q: the home of another user cannot be named", clip(name))
	case tilde:
		return cleanPath(a.home + "/" + rest), nil
	case strings.HasPrefix(name, "/"):
		return cleanPath(name), nil
	}
	return cleanPath(a.home + "/" + name), nil
}
