package list

import (
	"bufio"
	"bytes"
	"net/url"
	"path/filepath"
	"strings"

	"aether/internal/bounded"
)

const maxSettings = 1 << 20

// netrc is the logins of a file in that form, by machine.
type netrc []login

type login struct{ machine, user, password string }

// parseNetrc reads a file as tools do: words, with comments and macros left out. A login
// without a machine is for all that have none of their own.
func parseNetrc(text []byte) (all netrc) {
	words := bufio.NewScanner(bytes.NewReader(withoutMacros(text)))
	words.Split(bufio.ScanWords)
	words.Buffer(nil, maxSettings)
	next := func() string { words.Scan(); return words.Text() }
	for words.Scan() {
		switch word := words.Text(); {
		case word == "machine":
			all = append(all, login{machine: strings.ToLower(next())})
		case word == "default":
			all = append(all, login{})
		case len(all) == 0:
		case word == "login":
			all[len(all)-1].user = next()
		case word == "password":
			all[len(all)-1].password = next()
		case word == "account":
			next()
		}
	}
	return all
}

// withoutMacros leaves out definitions, which end with an empty line, and comments.
func withoutMacros(text []byte) []byte {
	var kept bytes.Buffer
	inMacro := false
	for line := range bytes.Lines(text) {
		trimmed := strings.TrimSpace(string(line))
		if strings.HasPrefix(trimmed, "macdef") {
			inMacro = true
		}
		if inMacro {
			inMacro = trimmed != ""
			continue
		}
		if !strings.HasPrefix(trimmed, "#") {
			kept.Write(line)
		}
	}
	return kept.Bytes()
}

// find gives the first login for a URL. Machines of apt may have a scheme before and
// port and path after their host.
func (n netrc) find(u *url.URL) *Credential {
	for _, l := range n {
		if l.matches(u) && (l.user != "" || l.password != "") {
			return basicCredential(l.user, l.password)
		}
	}
	return nil
}

func (l login) matches(u *url.URL) bool {
	if l.machine == "" {
		return true
	}
	machine := l.machine
	if scheme, rest, ok := strings.Cut(machine, "://"); ok {
		if scheme != u.Scheme {
			return false
		}
		machine = rest
	}
	host, path, _ := strings.Cut(machine, "/")
	named := host == strings.ToLower(u.Hostname()) || host == strings.ToLower(u.Host)
	return named && strings.HasPrefix(strings.TrimPrefix(strings.ToLower(u.Path), "/"), path)
}

// userNetrc is the file of the user whose environment it is. One that is missing, or
// that cannot be read, has no login for the tools either.
func userNetrc(env environment) netrc {
	name := env.get("NETRC")
	if name == "" {
		home := env.get("HOME")
		if home == "" {
			return nil
		}
		name = filepath.Join(home, ".netrc")
	}
	text, err := bounded.ReadFile(name, maxSettings)
	if err != nil {
		return nil
	}
	return parseNetrc(text)
}
