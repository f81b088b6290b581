package list

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// maxLocations bounds the indexes that one tool may name.
const maxLocations = 64

// askPip asks pip for its indexes and for its settings, at once: each takes it a while.
func askPip(ctx context.Context, a *asker) (ans answer) {
	program, ok := a.find("pip", "pip3")
	if !ok {
		ans.skipped = "it is not in PATH"
		return ans
	}
	var (
		search, settings       said
		searchErr, settingsErr error
		both                   sync.WaitGroup
	)
	both.Go(func() { search, searchErr = a.pipSearch(ctx, program) })
	both.Go(func() {
		settings, settingsErr = a.ask(ctx, question{program: program, args: []string{"config", "list"}})
	})
	both.Wait()
	if settingsErr != nil {
		ans.unsaid = append(ans.unsaid, "its settings could not be asked: "+settingsErr.Error())
	}
	ans.pip(search.stdout, parsePipSettings(settings.stdout), a.env)
	switch {
	case searchErr != nil && !failed(searchErr):
		ans.unsaid = append(ans.unsaid, "its indexes could not be asked: "+searchErr.Error())
	case len(ans.sites) == 0:
		ans.note("it searches no index")
	}
	return ans
}

// pipSearch has pip look for a project through a proxy that refuses: before it fails, it
// says every place that it would have searched, whatever made it do so.
func (a *asker) pipSearch(ctx context.Context, program string) (said, error) {
	refuse, err := refuseAll()
	if err != nil {
		return said{}, err
	}
	defer refuse.Close()
	return a.ask(ctx, question{program: program, env: append(refuse.environment(), "PIP_REQUIRE_VIRTUALENV=0"),
		args: []string{"download", "-vv", "--proxy", refuse.url(), "--retries", "0", "--no-input", "--no-deps", "--no-cache-dir",
			"--disable-pip-version-check", "--dest", ".", "pip"}})
}

// pip makes sites of the places that were searched.
func (ans *answer) pip(search []byte, settings []pipSetting, env environment) {
	p, logins := environmentProxies(env), userNetrc(env)
	for _, s := range settings {
		if s.name == "proxy" {
			p.except = nil
			p.set("http", s.value, "pip: "+s.key)
			p.set("https", s.value, "pip: "+s.key)
		}
	}
	places := parsePipSearch(search)
	for _, place := range places {
		index, isIndex := strings.CutSuffix(place, "/pip/")
		if isIndex {
			index += "/"
		}
		s, ok, err := newSite(index, "pip: default index")
		if err != nil {
			ans.note("%v", err)
		}
		if !ok || err != nil {
			continue
		}
		// What pip prints has stars in the place of secrets.
		s.credential = nil
		for _, set := range settings {
			set.describe(&s)
		}
		if s.credential == nil {
			s.credential = logins.find(s.url)
		}
		s.proxies, s.point = p, pointLinks
		if isIndex {
			s.point = pointSimple
		}
		ans.sites = append(ans.sites, s)
	}
}

// parsePipSearch gives the places that a search names.
func parsePipSearch(text []byte) (places []string) {
	for line := range strings.Lines(string(text)) {
		place, ok := strings.CutPrefix(strings.TrimSpace(line), "* ")
		if ok && strings.Contains(place, "://") && len(places) < maxLocations {
			places = append(places, place)
		}
	}
	return places
}

// pipSetting is one line of what pip says of its settings.
type pipSetting struct{ key, name, value string }

// parsePipSettings reads lines as global.index-url='https://...'.
func parsePipSettings(text []byte) (all []pipSetting) {
	for line := range strings.Lines(string(text)) {
		key, quoted, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		value, isText := unquotePython(quoted)
		if !ok || !isText || len(key) > 80 {
			continue
		}
		name := key[strings.LastIndex(key, ".")+1:]
		if env, ok := strings.CutPrefix(key, ":env:."); ok {
			key = "PIP_" + strings.ToUpper(strings.ReplaceAll(env, "-", "_"))
		}
		all = append(all, pipSetting{key, name, value})
	}
	return all
}

// unquotePython reads a string as repr writes it, as far as URLs need it.
func unquotePython(text string) (string, bool) {
	if len(text) < 2 || text[0] != '\'' && text[0] != '"' || text[len(text)-1] != text[0] {
		return "", false
	}
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`, `\'`, `'`, `\"`, `"`).Replace(text[1 : len(text)-1]), true
}

// describe has a site say which setting named it, and gives it the credential there.
func (s pipSetting) describe(to *site) {
	if s.name != "index-url" && s.name != "extra-index-url" && s.name != "find-links" {
		return
	}
	for _, text := range strings.Fields(s.value) {
		named, ok, err := newSite(text, "pip: "+s.key)
		if err != nil || !ok || directory(named.url).String() != directory(to.url).String() {
			continue
		}
		to.from = named.from
		if named.credential != nil {
			to.credential = named.credential
		}
	}
}

// acceptSimple is the form that every index has; others are read where one sends them.
const acceptSimple = "text/html, */*;q=0.1"

// pointSimple asks an index for the files of pip itself, or where it has none for those
// of the first project that it has.
func pointSimple(ctx context.Context, v *visit) error {
	links, err := v.simple(ctx, "pip/")
	var answered status
	if errors.As(err, &answered) && answered == http.StatusNotFound {
		var projects []*url.URL
		if projects, err = v.simple(ctx, ""); err != nil || len(projects) == 0 {
			return errors.Join(err, fmt.Errorf("it has no page for pip"))
		}
		if t, targetErr := targetOf(projects[0]); targetErr != nil || !v.named[t.String()] {
			return errElsewhere
		}
		links, err = v.simple(ctx, projects[0].String())
	}
	for _, u := range links {
		v.found(u)
	}
	return err
}

// pointLinks asks a page of links for what they lead to.
func pointLinks(ctx context.Context, v *visit) error {
	links, err := v.simple(ctx, "")
	for _, u := range links {
		v.found(u)
	}
	return err
}

// simple reads a page of an index.
func (v *visit) simple(ctx context.Context, reference string) ([]*url.URL, error) {
	body, header, at, err := v.get(ctx, http.MethodGet, reference, acceptSimple)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); strings.HasSuffix(kind, "json") {
		return parseSimpleJSON(body, at)
	}
	return parseLinks(body, at), nil
}

var linkTag = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<(a|base)\s(?:[^>]*?\s)?href\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+)`)
})

// parseLinks gives what the links of a page lead to.
func parseLinks(page []byte, at *url.URL) (links []*url.URL) {
	for _, found := range linkTag().FindAllSubmatch(page, maxEntries) {
		u, err := at.Parse(strings.TrimSpace(html.UnescapeString(strings.Trim(string(found[2]), `"'`))))
		switch {
		case err != nil:
		case strings.EqualFold(string(found[1]), "base"):
			at = u
		default:
			links = append(links, u)
		}
	}
	return links
}

// parseSimpleJSON gives the files of a project, or the projects of an index.
func parseSimpleJSON(page []byte, at *url.URL) (links []*url.URL, err error) {
	var index struct {
		Files    []struct{ URL string }
		Projects []struct{ Name string }
	}
	if json.Unmarshal(page, &index) != nil {
		return nil, errors.New("its page is not as expected")
	}
	for _, f := range index.Files {
		if u, err := at.Parse(f.URL); err == nil && f.URL != "" {
			links = append(links, u)
		}
	}
	for _, p := range index.Projects {
		if p.Name != "" {
			links = append(links, at.JoinPath(p.Name, "/"))
			break
		}
	}
	return links, nil
}
