package list

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"aether/internal/bounded"
)

// askApt asks apt for the repositories that it would update from, whether it ever has or
// not, and for its settings.
func askApt(ctx context.Context, a *asker) (ans answer) {
	get, ok := a.find("apt-get")
	config, hasConfig := a.find("apt-config")
	if !ok || !hasConfig {
		ans.skipped = "apt-get or apt-config is not in PATH"
		return ans
	}
	targets, err := a.ask(ctx, question{program: get, args: []string{"indextargets", "--no-release-info", "--format", "$(REPO_URI) $(BASE_URI) $(SOURCESENTRY)"}})
	if err != nil {
		ans.unsaid = append(ans.unsaid, "its repositories could not be asked: "+err.Error())
		return ans
	}
	settings, err := a.ask(ctx, question{program: config, args: []string{"dump"}})
	if err != nil {
		ans.unsaid = append(ans.unsaid, "its settings could not be asked: "+err.Error())
	}
	ans.apt(parseAptTargets(targets.stdout), parseAptSettings(settings.stdout), a.env)
	return ans
}

// aptTarget is a repository, one of its indexes and the line that names it.
type aptTarget struct{ repository, base, entry string }

// parseAptTargets reads a line for each index, and gives one for each repository.
func parseAptTargets(text []byte) (all []aptTarget) {
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || seen[fields[0]] || len(all) == maxLocations {
			continue
		}
		seen[fields[0]] = true
		all = append(all, aptTarget{fields[0], fields[1], strings.Join(fields[2:], " ")})
	}
	return all
}

// aptSettings are the last values by name, in lower case.
type aptSettings map[string]string

// parseAptSettings reads lines as Acquire::http::Proxy "http://...";
func parseAptSettings(text []byte) aptSettings {
	all := aptSettings{}
	for line := range strings.Lines(string(text)) {
		key, quoted, ok := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.Unquote(strings.TrimSuffix(quoted, ";"))
		if ok && err == nil && value != "" {
			all[strings.ToLower(key)] = value
		}
	}
	return all
}

func (ans *answer) apt(targets []aptTarget, settings aptSettings, env environment) {
	logins := settings.logins()
	if settings["acquire::http::proxy-auto-detect"] != "" || settings["acquire::http::proxyautodetect"] != "" {
		ans.note("it has a program that finds its proxy, which was not asked")
	}
	for _, t := range targets {
		from := "apt: " + printable(t.entry)
		if t.entry == "" {
			from = "apt: sources"
		}
		ans.aptRepository(t, from, settings, logins, env)
	}
}

func (ans *answer) aptRepository(t aptTarget, from string, settings aptSettings, logins netrc, env environment) {
	method, rest, _ := strings.Cut(t.repository, ":")
	for _, over := range []string{"mirror+", "tor+"} {
		method = strings.TrimPrefix(method, over)
	}
	isMirror := strings.HasPrefix(t.repository, "mirror")
	if isMirror && method == "file" {
		ans.aptMirrorFile(rest, from, settings, logins, env)
		return
	}
	if method == "mirror" {
		method = "http"
	}
	s, ok, err := newSite(method+":"+rest, from)
	if err != nil {
		ans.note("%v", err)
	}
	if !ok || err != nil {
		return
	}
	if s.credential == nil {
		s.credential = logins.find(s.url)
	}
	s.proxies = settings.proxies(s.url.Hostname(), env)
	switch {
	case strings.HasPrefix(t.repository, "tor+"):
		ans.note("%s is reached through Tor, whose proxy is not in this list", s.url.Host)
		return
	case isMirror:
		s.url.Path = strings.TrimSuffix(s.url.Path, "/") // which apt has put there
		s.point = pointMirrors
	case method == "http" || method == "https":
		if base, err := url.Parse(t.base); err == nil {
			base.User = nil
			s.point = redirections(directory(base).JoinPath("InRelease").String())
		}
	}
	ans.sites = append(ans.sites, s)
}

// aptMirrorFile reads a list of mirrors that is a file of this host.
func (ans *answer) aptMirrorFile(path, from string, settings aptSettings, logins netrc, env environment) {
	text, err := bounded.ReadFile(filepath.Clean(strings.TrimPrefix(path, "//")), maxSettings)
	if err != nil {
		ans.note("%s: its file of mirrors cannot be read", from)
		return
	}
	for _, mirror := range parseMirrors(text) {
		ans.aptRepository(aptTarget{mirror, mirror, ""}, from, settings, logins, env)
	}
}

// parseMirrors reads the first word of each line. Lists do not name lists.
func parseMirrors(text []byte) (all []string) {
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 0 && (strings.HasPrefix(fields[0], "http://") || strings.HasPrefix(fields[0], "https://")) && len(all) < maxLocations {
			all = append(all, fields[0])
		}
	}
	return all
}

// pointMirrors asks for a list of mirrors.
func pointMirrors(ctx context.Context, v *visit) error {
	body, _, _, err := v.get(ctx, http.MethodGet, "", "text/plain")
	for _, mirror := range parseMirrors(body) {
		if u, err := url.Parse(mirror); err == nil {
			v.found(u)
		}
	}
	return err
}

// proxies are what apt goes through to a host: its settings for that host, its settings,
// the environment.
func (s aptSettings) proxies(host string, env environment) proxies {
	p := environmentProxies(env)
	for _, scheme := range []string{"http", "https"} {
		for _, key := range []string{"http::proxy", scheme + "::proxy", "http::proxy::" + strings.ToLower(host), scheme + "::proxy::" + strings.ToLower(host)} {
			switch value := s["acquire::"+key]; {
			case strings.EqualFold(value, "DIRECT"), strings.EqualFold(value, "false"):
				delete(p.byScheme, scheme)
			default:
				p.set(scheme, value, "apt: Acquire::"+key)
			}
		}
	}
	return p
}

// logins are those that apt keeps for its repositories.
func (s aptSettings) logins() (all netrc) {
	etc := filepath.Join(s["dir"], s["dir::etc"])
	at := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(etc, name)
	}
	var files []string
	if name := s["dir::etc::netrcparts"]; name != "" {
		files, _ = filepath.Glob(filepath.Join(at(name), "*.conf")) // the pattern is a good one
	}
	if name := s["dir::etc::netrc"]; name != "" {
		files = append(files, at(name))
	}
	for _, name := range files {
		if text, err := bounded.ReadFile(name, maxSettings); err == nil { // apt too goes without
			all = append(all, parseNetrc(text)...)
		}
	}
	return all
}
