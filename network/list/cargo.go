package list

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"aether/internal/bounded"
)

// emptyCrate is a project that needs one crate, whichever.
var emptyCrate = map[string]string{
	"Cargo.toml": "[package]\nname = \"ask\"\nversion = \"0.0.0\"\nedition = \"2018\"\n[dependencies]\ncargo = \"*\"\n",
	"src/lib.rs": "",
}

// askCargo asks cargo for its index, and reads in its settings which others there are.
func askCargo(ctx context.Context, a *asker) (ans answer) {
	program, ok := a.find("cargo")
	if !ok {
		ans.skipped = "it is not in PATH"
		return ans
	}
	if dir := a.plantable(); dir != "" {
		ans.skipped = "it would take settings from " + dir + ", where others can write"
		return ans
	}
	home := cargoHome(a.env)
	got, err := a.cargoFetch(ctx, program, home)
	index := parseCargoFailure(got.stderr)
	ans.cargo(index, readCargoSettings(home), a.env)
	switch {
	case index != "":
	case failed(err):
		ans.note("it names no index: it may use crates of this host alone, or have no toolchain")
	case err != nil:
		ans.unsaid = append(ans.unsaid, "its index could not be asked: "+err.Error())
	}
	return ans
}

// cargoFetch has cargo fetch through a proxy that refuses: when it fails, it says which
// index it wanted, whatever replaces which. Its home is an empty one with links to the
// settings of the real one, so that nothing is written there.
func (a *asker) cargoFetch(ctx context.Context, program, from string) (said, error) {
	refuse, err := refuseAll()
	if err != nil {
		return said{}, err
	}
	defer refuse.Close()
	home, err := a.linkCargoHome(from)
	if err != nil {
		return said{}, err
	}
	return a.ask(ctx, question{program: program, args: []string{"fetch"}, files: emptyCrate,
		env: append(refuse.environment(), "CARGO_HOME="+home, "CARGO_HTTP_PROXY="+refuse.url(), "CARGO_NET_RETRY=0", "CARGO_NET_GIT_FETCH_WITH_CLI=false")})
}

func cargoHome(env environment) string {
	if home := env.get("CARGO_HOME"); home != "" {
		return home
	}
	return filepath.Join(env.get("HOME"), ".cargo")
}

// linkCargoHome makes a home whose settings are those of another.
func (a *asker) linkCargoHome(from string) (home string, err error) {
	if from, err = filepath.Abs(from); err != nil {
		return "", err
	}
	if home, err = a.room(nil); err != nil {
		return "", err
	}
	for _, name := range []string{"config", "config.toml"} {
		if _, err := os.Stat(filepath.Join(from, name)); err != nil {
			continue // most homes have one of them or none
		}
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(home, name)); err != nil {
			return "", err
		}
	}
	return home, nil
}

var cargoURL = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?m)^\\s*failed to (?:download from|fetch|clone into|get) `((?:sparse\\+)?[a-z]+://[^`\\s]+)`")
})

// parseCargoFailure gives the URL of the index that could not be fetched.
func parseCargoFailure(text []byte) string {
	found := cargoURL().FindSubmatch(text)
	if found == nil {
		return ""
	}
	at := string(found[1])
	if sparse, ok := strings.CutSuffix(at, "config.json"); ok {
		return "sparse+" + strings.TrimPrefix(sparse, "sparse+")
	}
	return at
}

// cargoSettings are those of a home that name hosts, or have secrets.
type cargoSettings struct {
	Registries map[string]cargoRegistry
	HTTP       struct{ Proxy string }
}

type cargoRegistry struct{ Index, Token string }

// readCargoSettings reads the files of a home. Those with secrets come last, and win.
func readCargoSettings(home string) cargoSettings {
	all := cargoSettings{Registries: map[string]cargoRegistry{}}
	for _, name := range []string{"config.toml", "config", "credentials.toml", "credentials"} {
		text, err := bounded.ReadFile(filepath.Join(home, name), maxSettings)
		if err != nil {
			continue // most have some of them
		}
		if one, err := parseCargoSettings(text); err == nil {
			all.join(one)
		}
	}
	return all
}

func parseCargoSettings(text []byte) (s cargoSettings, err error) {
	if toml.Unmarshal(text, &s) != nil {
		return cargoSettings{}, errors.New("its settings are not as expected")
	}
	return s, nil
}

func (s *cargoSettings) join(other cargoSettings) {
	if s.HTTP.Proxy == "" {
		s.HTTP.Proxy = other.HTTP.Proxy
	}
	for name, registry := range other.Registries {
		old := s.Registries[name]
		if old.Index == "" {
			old.Index = registry.Index
		}
		if registry.Token != "" {
			old.Token = registry.Token
		}
		s.Registries[name] = old
	}
}

// variables takes what the environment has for registries, which wins.
func (s *cargoSettings) variables(env environment) {
	for name, value := range env.named("CARGO_REGISTRIES_") {
		registry, isIndex := strings.CutSuffix(name, "_INDEX")
		registry, isToken := strings.CutSuffix(registry, "_TOKEN")
		key := strings.ToLower(registry)
		for known := range s.Registries {
			if strings.EqualFold(strings.ReplaceAll(known, "-", "_"), registry) {
				key = known
			}
		}
		old := s.Registries[key]
		if isIndex {
			old.Index = value
		} else if isToken {
			old.Token = value
		}
		s.Registries[key] = old
	}
	if value := env.get("CARGO_HTTP_PROXY"); value != "" {
		s.HTTP.Proxy = value
	}
}

func (ans *answer) cargo(index string, settings cargoSettings, env environment) {
	settings.variables(env)
	p := environmentProxies(env)
	if via := settings.HTTP.Proxy; via != "" {
		p.set("http", cargoProxy(via), "cargo: http.proxy")
		p.set("https", cargoProxy(via), "cargo: http.proxy")
	}
	if index != "" {
		ans.cargoIndex(index, "cargo: default index", settings.tokenOf(index), p)
	}
	for _, name := range slices.Sorted(maps.Keys(settings.Registries)) {
		registry := settings.Registries[name]
		if len(ans.sites) == maxLocations {
			ans.note("it names over %d registries: the rest is left out", maxLocations)
			return
		}
		if registry.Index != "" {
			ans.cargoIndex(registry.Index, "cargo: registries."+printable(name)+".index", registry.Token, p)
		}
	}
}

// cargoProxy gives a proxy without a port the one that cargo's library takes.
func cargoProxy(text string) string {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	if u, err := url.Parse(text); err == nil && u.Port() == "" && u.Scheme == "http" {
		u.Host += ":1080"
		return u.String()
	}
	return text
}

// tokenOf is that of the registry whose index it is.
func (s cargoSettings) tokenOf(index string) string {
	same := func(text string) string { return strings.Trim(strings.TrimPrefix(text, "sparse+"), "/") }
	for _, registry := range s.Registries {
		if same(registry.Index) == same(index) {
			return registry.Token
		}
	}
	return ""
}

func (ans *answer) cargoIndex(text, from, token string, p proxies) {
	bare, sparse := strings.CutPrefix(text, "sparse+")
	s, ok, err := newSite(bare, from)
	if err != nil {
		ans.note("%v", err)
	}
	if !ok || err != nil {
		return
	}
	if token != "" {
		s.credential = tokenCredential("", token)
	}
	if s.proxies = p; sparse {
		s.url, s.point = directory(s.url), pointCargo
	} else {
		ans.note("the index at %s is a git repository: what it points to is not asked", s.url.Host)
	}
	ans.sites = append(ans.sites, s)
}

// pointCargo asks an index where crates and the interface of its registry are.
func pointCargo(ctx context.Context, v *visit) error {
	var config struct{ DL, API string }
	if err := v.getJSON(ctx, "config.json", &config); err != nil {
		return err
	}
	for _, text := range []string{config.DL, config.API} {
		// What stands in braces is put in by cargo.
		if u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(text)); err == nil && slices.Contains([]string{"http", "https"}, u.Scheme) {
			v.found(u)
		}
	}
	return nil
}
