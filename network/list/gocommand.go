package list

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

// goSettings are those of the go command that name hosts.
type goSettings struct{ GOPROXY, GOSUMDB, GONOPROXY string }

// askGo asks the go command. An empty module of ours keeps it from looking for one, and
// for a toolchain that it wants, in the directories above.
func askGo(ctx context.Context, a *asker) (ans answer) {
	program, ok := a.find("go")
	if !ok {
		ans.skipped = "it is not in PATH"
		return ans
	}
	got, err := a.ask(ctx, question{program: program, files: map[string]string{"go.mod": "module ask\n"}, env: []string{"GOWORK=off"},
		args: []string{"env", "-json", "GOPROXY", "GOSUMDB", "GONOPROXY"}})
	var settings goSettings
	if err == nil {
		settings, err = parseGoSettings(got.stdout)
	}
	if err != nil {
		ans.unsaid = append(ans.unsaid, "its settings could not be asked: "+err.Error())
		return ans
	}
	ans.goCommand(settings, a.env)
	return ans
}

func parseGoSettings(text []byte) (s goSettings, err error) {
	if json.Unmarshal(text, &s) != nil {
		return goSettings{}, errors.New("what it says is not as expected")
	}
	return s, nil
}

func (ans *answer) goCommand(s goSettings, env environment) {
	p, logins := environmentProxies(env), userNetrc(env)
	database, at := sumDatabase(s.GOSUMDB)
	for i, one := range strings.FieldsFunc(s.GOPROXY, func(r rune) bool { return r == ',' || r == '|' }) {
		switch one = strings.TrimSpace(one); {
		case i == maxLocations:
			ans.note("GOPROXY names over %d proxies: the rest is left out", maxLocations)
			return
		case one == "off":
			ans.note("GOPROXY ends with off")
		case one == "direct":
			ans.note("GOPROXY has direct: what its proxies do not have comes from the hosts of the modules, which are not in this list")
		case one != "":
			reference := "sumdb/" + database + "/supported"
			if database == "" {
				reference = ""
			}
			ans.goSite(one, "go: GOPROXY", reference, p, logins)
		}
	}
	if at != "" {
		ans.goSite(at, "go: GOSUMDB", "latest", p, logins)
	}
	ans.goPrivate(s.GONOPROXY)
}

func (ans *answer) goSite(text, from, reference string, p proxies, logins netrc) {
	s, ok, err := newSite(text, from)
	if err != nil {
		ans.note("%v", err)
	}
	if !ok || err != nil {
		return
	}
	if s.url = directory(s.url); s.credential == nil {
		s.credential = logins.find(s.url)
	}
	s.proxies, s.point = p, redirections(reference)
	ans.sites = append(ans.sites, s)
}

// sumDatabase reads NAME, NAME+KEY or NAME+KEY URL.
func sumDatabase(text string) (name, at string) {
	fields := strings.Fields(text)
	if len(fields) == 0 || fields[0] == "off" {
		return "", ""
	}
	name, _, _ = strings.Cut(fields[0], "+")
	if len(fields) > 1 {
		return name, fields[1]
	}
	return name, "https://" + name
}

// goPrivate lists the hosts of modules that are asked for without a proxy.
func (ans *answer) goPrivate(patterns string) {
	for _, pattern := range strings.Split(patterns, ",") {
		host, _, _ := strings.Cut(strings.TrimSpace(pattern), "/")
		if host == "" {
			continue
		}
		if strings.ContainsAny(host, "*?[\\") {
			ans.note("GONOPROXY has the pattern %.80q: the hosts that it matches are not in this list", host)
			continue
		}
		if s, ok, err := newSite("https://"+host, "go: GONOPROXY"); err == nil && ok {
			ans.sites = append(ans.sites, s)
		}
	}
}
