package list

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"aether/internal/bounded"
)

// askNpm asks npm for its settings. An empty package of ours keeps it from looking for a
// project, with settings of its own, in the directories above.
func askNpm(ctx context.Context, a *asker) (ans answer) {
	program, ok := a.find("npm")
	if !ok {
		ans.skipped = "it is not in PATH"
		return ans
	}
	got, err := a.ask(ctx, question{program: program, files: map[string]string{"package.json": "{}"},
		args: []string{"config", "ls", "-l", "--json", "--logs-max=0", "--no-update-notifier"}})
	var settings npmSettings
	if err == nil {
		settings, err = parseNpmSettings(got.stdout)
	}
	if err != nil {
		ans.unsaid = append(ans.unsaid, "its settings could not be asked: "+err.Error())
		return ans
	}
	ans.npm(settings, npmFiles(settings, a.env), a.env)
	return ans
}

// npmSettings are those whose value is text.
type npmSettings map[string]string

func parseNpmSettings(text []byte) (npmSettings, error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return nil, errors.New("what it says is not as expected")
	}
	settings := npmSettings{}
	for key, value := range all {
		var one string
		var several []string
		switch {
		case json.Unmarshal(value, &one) == nil:
			settings[key] = one
		case json.Unmarshal(value, &several) == nil:
			settings[key] = strings.Join(several, ",")
		}
	}
	return settings, nil
}

// npmFiles reads what npm does not say of its settings because it is secret: of the
// environment, of the user and of the host, the first of which wins.
func npmFiles(settings npmSettings, env environment) npmSettings {
	all := npmSettings{}
	for _, key := range []string{"globalconfig", "userconfig"} {
		text, err := bounded.ReadFile(settings[key], maxSettings)
		if err != nil {
			continue // that of most hosts does not exist
		}
		for name, value := range parseNpmrc(text, env) {
			all[name] = value
		}
	}
	for name, value := range env.named("npm_config_") {
		if !strings.HasPrefix(name, "//") {
			name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		}
		all[name] = value
	}
	return all
}

var npmVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([^}]+)\}`) })

// parseNpmrc reads lines of NAME = VALUE, with variables.
func parseNpmrc(text []byte, env environment) npmSettings {
	all := npmSettings{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "#") {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		all[strings.TrimSpace(key)] = npmVariable().ReplaceAllStringFunc(value, func(v string) string {
			return env.get(strings.TrimSuffix(v[2:len(v)-1], "?"))
		})
	}
	return all
}

func (ans *answer) npm(settings, files npmSettings, env environment) {
	p := environmentProxies(env)
	if except := settings["noproxy"]; except != "" {
		p.except = strings.FieldsFunc(except, isListSpace)
	}
	for scheme, key := range map[string]string{"http": "proxy", "https": "https-proxy"} {
		if value := settings[key]; value != "" {
			p.set(scheme, value, "npm: "+key)
		} else {
			p.set(scheme, files[key], "npm: "+key)
		}
	}
	registries := npmSettings{}
	for _, from := range []npmSettings{files, settings} { // the latter wins, but for what it does not say
		for key, value := range from {
			if (key == "registry" || strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry")) && len(key) <= 80 && value != "" {
				registries[key] = value
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(registries)) {
		if len(ans.sites) == maxLocations {
			ans.note("it names over %d registries: the rest is left out", maxLocations)
			break
		}
		ans.npmRegistry(key, registries[key], files, p, settings["replace-registry-host"] == "always")
	}
}

func (ans *answer) npmRegistry(key, value string, files npmSettings, p proxies, staysThere bool) {
	s, ok, err := newSite(value, "npm: "+key)
	if err != nil {
		ans.note("%v", err)
	}
	if !ok || err != nil {
		return
	}
	s.url = directory(s.url)
	if s.credential == nil {
		s.credential = files.npmCredential(s.url)
	}
	s.proxies = p
	if s.point = pointNpm(strings.TrimSuffix(key, ":registry")); staysThere {
		s.point = redirections("")
	}
	ans.sites = append(ans.sites, s)
}

// npmCredential finds what is kept for a registry: under //HOST/PATH/, or a part of that
// path.
func (n npmSettings) npmCredential(u *url.URL) *Credential {
	for path := u.Path; ; path = path[:strings.LastIndex(strings.TrimSuffix(path, "/"), "/")+1] {
		at := "//" + u.Host + path + ":"
		if token := n[at+"_authToken"]; token != "" {
			return tokenCredential("Bearer", token)
		}
		if both := n[at+"_auth"]; both != "" {
			return tokenCredential("Basic", both)
		}
		if password, err := base64.StdEncoding.DecodeString(n[at+"_password"]); err == nil && n[at+"username"] != "" {
			return basicCredential(n[at+"username"], string(password))
		}
		if path == "" || path == "/" {
			return nil
		}
	}
}

// npmManifest is a version of a package.
type npmManifest struct {
	Dist struct{ Tarball string }
}

// pointNpm asks a registry for the files of npm itself, or where it has none for those of
// a package that its search finds.
func pointNpm(scope string) func(context.Context, *visit) error {
	return func(ctx context.Context, v *visit) error {
		err := v.npmTarball(ctx, "npm")
		var answered status
		if !errors.As(err, &answered) || !slices.Contains([]status{http.StatusNotFound, http.StatusForbidden, http.StatusMethodNotAllowed}, answered) {
			return err
		}
		var search struct {
			Objects []struct{ Package struct{ Name string } }
		}
		if searchErr := v.getJSON(ctx, "-/v1/search?size=1&text="+url.QueryEscape(strings.TrimPrefix(scope, "registry")), &search); searchErr != nil || len(search.Objects) == 0 {
			return err
		}
		return v.npmTarball(ctx, search.Objects[0].Package.Name)
	}
}

func (v *visit) npmTarball(ctx context.Context, name string) error {
	var m npmManifest
	if err := v.getJSON(ctx, "./"+url.PathEscape(name)+"/latest", &m); err != nil {
		return err
	}
	u, err := v.site.url.Parse(m.Dist.Tarball)
	if err != nil || m.Dist.Tarball == "" {
		return errors.New("it names no file")
	}
	v.found(u)
	return nil
}
