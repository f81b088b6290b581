package list

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is for tools on a machine that does much else.
const patience = 3 * time.Minute

// bench is a home without settings, and a host of files that nobody may ask.
type bench struct {
	t     *testing.T
	home  string
	env   environment
	files *httptest.Server
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, home: t.TempDir()}
	b.files = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a host that no setting names was asked for %s", r.URL)
	}))
	t.Cleanup(b.files.Close)
	own := regexp.MustCompile(`(?i)^(pip_|npm_|go[a-z]*=|cargo_|[a-z]*_proxy=|apt_config|netrc|xdg_config|home=|rustup_home)`)
	b.env = slices.DeleteFunc(os.Environ(), func(one string) bool { return own.MatchString(one) && !strings.HasPrefix(one, "GOROOT=") })
	b.env = b.env.with("HOME="+b.home, "XDG_CONFIG_HOME="+filepath.Join(b.home, ".config"))
	return b
}

func (b *bench) set(changes ...string) { b.env = b.env.with(changes...) }

func (b *bench) write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// need skips the test where the tool is not to be had.
func (b *bench) need(program string, args ...string) {
	b.t.Helper()
	a := &asker{env: b.env}
	path, ok := a.find(program)
	if !ok {
		b.t.Skipf("%s is not installed", program)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir = b.env, b.home
	if err := cmd.Run(); err != nil {
		b.t.Skipf("%s does not run here: %v", program, err)
	}
}

// serve is a site whose pages are text, by path; >URL redirects there.
func (b *bench) serve(pages map[string]string, authorization string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		to, elsewhere := strings.CutPrefix(page, ">")
		switch {
		case r.Header.Get("Authorization") != authorization:
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case !ok:
			http.NotFound(w, r)
		case elsewhere:
			http.Redirect(w, r, to, http.StatusFound)
		default:
			if strings.HasPrefix(page, "{") {
				w.Header().Set("Content-Type", "application/json")
			}
			fmt.Fprint(w, page)
		}
	}))
	b.t.Cleanup(s.Close)
	return s
}

func (b *bench) ask(dir, name string) List {
	b.t.Helper()
	at := slices.IndexFunc(tools, func(t tool) bool { return t.name == name })
	l, err := collect(b.t.Context(), Options{Dir: dir, Env: b.env, Timeout: patience}, tools[at:at+1])
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

// allow is the entry of a server at the loopback.
func allow(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// expect checks that a list has an entry.
func (b *bench) expect(l List, allow, from string, private bool, header string) {
	b.t.Helper()
	for _, e := range l.Entries {
		if e.Allow == allow {
			if !strings.Contains(e.From, from) || e.Private != private || e.Credential.Header() != header {
				b.t.Errorf("%+v is from %q, want %q; private is %v, want %v; the credential is right: %v", e, e.From, from, e.Private, private, e.Credential.Header() == header)
			}
			return
		}
	}
	b.t.Errorf("there is no entry %s from %s in %+v", allow, from, l)
}

// quiet checks that nothing of a list tells a secret.
func (b *bench) quiet(l List, secrets ...string) {
	b.t.Helper()
	text := fmt.Sprintf("%+v %#v", l, l)
	cache := Cache{Dir: b.t.TempDir(), Env: b.env}
	if err := cache.Store(l); err != nil {
		b.t.Fatal(err)
	}
	kept, err := os.ReadFile(cache.path(l.Name))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) || bytes.Contains(kept, []byte(secret)) {
			b.t.Errorf("%s is told: %s\n%s", secret, text, kept)
		}
	}
}

func TestPip(t *testing.T) {
	b := newBench(t)
	b.need("pip", "--version")
	first := b.serve(map[string]string{"/simple/pip/": `<html><a href="` + b.files.URL + `/x.whl#sha256=1">x</a></html>`}, basicCredential("me", "pip-secret").Header())
	second := b.serve(map[string]string{"/": `{"projects":[{"name":"other"}]}`, "/other/": `{"files":[{"url":"` + b.files.URL + `/y.whl"},{"url":"/z.whl"}]}`}, basicCredential("net", "rc-secret").Header())
	b.write(".config/pip/pip.conf", "[global]\nextra-index-url =\n  "+second.URL+"\n")
	b.write(".netrc", "machine 127.0.0.1 login net password rc-secret\n")
	b.set("PIP_INDEX_URL=" + strings.Replace(first.URL, "//", "//me:pip-secret@", 1) + "/simple")
	l := b.ask(t.TempDir(), "pip")
	b.expect(l, allow(first), "pip: PIP_INDEX_URL", true, basicCredential("me", "pip-secret").Header())
	b.expect(l, allow(second), "pip: global.extra-index-url", true, basicCredential("net", "rc-secret").Header())
	b.expect(l, allow(b.files), "points to it", false, "")
	if len(l.Entries) != 3 || l.Incomplete {
		t.Errorf("%+v", l)
	}
	b.quiet(l, "pip-secret", "rc-secret")
}

// TestPipDefault has no settings: pip says by itself where it would look.
func TestPipDefault(t *testing.T) {
	b := newBench(t)
	b.need("pip", "--version")
	b.set("PIP_CONFIG_FILE=/dev/null")
	l, err := collect(t.Context(), Options{Dir: t.TempDir(), Env: b.env, Timeout: patience, Offline: true}, tools[:1])
	if err != nil || len(l.Entries) != 1 || !strings.HasSuffix(l.Entries[0].Allow, ":443") || l.Entries[0].From != "pip: default index" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestNpm(t *testing.T) {
	b := newBench(t)
	b.need("npm", "--version")
	main := b.serve(map[string]string{"/repo/npm/latest": `{"dist":{"tarball":"` + b.files.URL + `/npm.tgz"}}`}, "Bearer npm-secret")
	scoped := b.serve(map[string]string{"/-/v1/search": `{"objects":[{"package":{"name":"@mine/x"}}]}`, "/@mine/x/latest": `{"dist":{"tarball":"/x.tgz"}}`}, basicCredential("url", "in-url").Header())
	b.set("NPM_TOKEN=npm-secret")
	b.write(".npmrc", "registry="+main.URL+"/repo/\n//"+strings.TrimPrefix(main.URL, "http://")+"/:_authToken=${NPM_TOKEN}\n@mine:registry="+
		strings.Replace(scoped.URL, "//", "//url:in-url@", 1)+"\nhttps-proxy=http://px:px-secret@proxy.invalid:3128\n")
	l := b.ask(t.TempDir(), "npm")
	b.expect(l, allow(main), "npm: registry", true, "Bearer npm-secret")
	b.expect(l, allow(scoped), "npm: @mine:registry", true, basicCredential("url", "in-url").Header())
	b.expect(l, allow(b.files), "points to it", false, "")
	if len(l.Entries) != 3 || l.Incomplete { // nothing of this goes through the proxy for https
		t.Errorf("%+v", l)
	}
	b.quiet(l, "npm-secret", "in-url", "px-secret")
}

func TestGo(t *testing.T) {
	b := newBench(t)
	// Or else what go leaves running writes to its home when this test has ended.
	b.write(".config/go/telemetry/mode", "off")
	b.need("go", "version")
	proxy := b.serve(map[string]string{"/sumdb/sum.invalid/supported": ">" + b.files.URL + "/x"}, basicCredential("go", "go-secret").Header())
	sums := b.serve(map[string]string{"/latest": "go.sum database tree"}, "")
	b.set("GOPROXY="+strings.Replace(proxy.URL, "//", "//go:go-secret@", 1)+"|direct", "GOSUMDB=sum.invalid+00000000+key "+sums.URL, "GOPRIVATE=git.invalid/team,*.corp.invalid")
	l := b.ask(t.TempDir(), "go")
	b.expect(l, allow(proxy), "go: GOPROXY", true, basicCredential("go", "go-secret").Header())
	b.expect(l, allow(sums), "go: GOSUMDB", true, "")
	b.expect(l, allow(b.files), "points to it", false, "")
	b.expect(l, "git.invalid:443", "go: GONOPROXY", false, "")
	notes := strings.Join(l.Notes, "\n")
	for _, want := range []string{"GOPROXY has direct", "*.corp.invalid", "redirects to a host that no setting names", "git.invalid could not be resolved"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note says %q: %s", want, notes)
		}
	}
	b.quiet(l, "go-secret")
}

func TestApt(t *testing.T) {
	b := newBench(t)
	b.need("apt-get", "--version")
	s := b.serve(map[string]string{"/debian/dists/stable/InRelease": ">" + b.files.URL + "/x"}, basicCredential("apt", "apt-secret").Header())
	mirrored := b.serve(map[string]string{"/m/dists/stable/InRelease": ""}, "")
	mirrors := b.write("mirrors", mirrored.URL+"/m/\tpriority:1\nnonsense\n")
	sources := b.write("sources.list", "deb [trusted=yes] "+s.URL+"/debian stable main\ndeb [trusted=yes] mirror+file:"+mirrors+" stable main\ndeb [trusted=yes] file:/srv/local stable main\n")
	auth := b.write("auth.conf", "machine "+s.URL+"/debian login apt password apt-secret\n")
	b.set("APT_CONFIG=" + b.write("apt.conf", fmt.Sprintf("Dir::Etc::sourcelist %q;\nDir::Etc::sourceparts \"-\";\nDir::Etc::netrc %q;\nAcquire::https::Proxy \"http://proxy.invalid:3128\";\n", sources, auth)))
	l := b.ask(t.TempDir(), "apt")
	b.expect(l, allow(s), "apt: "+sources, true, basicCredential("apt", "apt-secret").Header())
	b.expect(l, allow(mirrored), "apt: "+sources, true, "")
	b.expect(l, allow(b.files), "points to it", false, "")
	if len(l.Entries) != 3 {
		t.Errorf("%+v", l)
	}
	b.quiet(l, "apt-secret")
}

func TestCargo(t *testing.T) {
	b := newBench(t)
	user, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	if toolchains := filepath.Join(user, ".rustup"); os.Getenv("RUSTUP_HOME") != "" {
		b.set("RUSTUP_HOME=" + os.Getenv("RUSTUP_HOME"))
	} else if _, err := os.Stat(toolchains); err == nil {
		b.set("RUSTUP_HOME=" + toolchains)
	}
	b.need("cargo", "--version")
	dir, err := os.MkdirTemp(user, ".aether-list-test-")
	if err != nil {
		t.Skipf("no directory below which nobody else can write: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	source := b.cargoSource()
	main := b.serve(map[string]string{"/index/config.json": `{"dl":"` + b.files.URL + `/{crate}/{version}","api":"https://api.invalid"}`}, "")
	mine := b.serve(map[string]string{"/config.json": `{"dl":"https://dl.invalid:8443/x"}`}, "cargo-secret")
	b.write(".cargo/config.toml", "[source."+source+"]\nreplace-with = \"near\"\n[source.near]\nregistry = \"sparse+"+main.URL+"/index/\"\n[registries]\nmine = { index = \"sparse+"+mine.URL+"/\" }\n[http]\nproxy = \"proxy.invalid\"\n")
	b.write(".cargo/credentials.toml", "[registries.mine]\ntoken = \"cargo-secret\"\n[registry]\ntoken = \"publish-secret\"\n")
	b.set("CARGO_REGISTRIES_GIT_ONE_INDEX=https://git.invalid/index.git", "CARGO_HTTP_PROXY="+strings.Replace(main.URL, "//", "//via:via-secret@", 1))
	l := b.ask(dir, "cargo")
	b.expect(l, allow(main), "cargo: default index", true, basicCredential("via", "via-secret").Header())
	b.expect(l, allow(mine), "cargo: registries.mine.index", true, "cargo-secret")
	b.expect(l, "git.invalid:443", "cargo: registries.git_one.index", false, "")
	b.quiet(l, "cargo-secret", "publish-secret", "via-secret")
	for _, e := range l.Entries {
		if e.Credential.Header() == "publish-secret" {
			t.Error("the token to publish with is given away")
		}
	}

	b.set("CARGO_HTTP_PROXY", "CARGO_REGISTRIES_GIT_ONE_INDEX")
	b.write(".cargo/config.toml", "[source."+source+"]\nreplace-with = \"near\"\n[source.near]\nregistry = \"sparse+"+main.URL+"/index/\"\n[registries]\nmine = { index = \"sparse+"+mine.URL+"/\" }\n")
	l = b.ask(dir, "cargo")
	b.expect(l, allow(b.files), "points to it", false, "")
	b.expect(l, "api.invalid:443", "points to it", false, "")
	b.expect(l, "dl.invalid:8443", "points to it", false, "")
	if len(l.Entries) != 5 {
		t.Errorf("%+v", l)
	}
}

// cargoSource is the name that cargo has for where crates come from by default.
func (b *bench) cargoSource() string {
	b.t.Helper()
	a := &asker{env: b.env, scratch: b.t.TempDir(), timeout: patience}
	program, _ := a.find("cargo")
	got, _ := a.ask(b.t.Context(), question{program: program, args: []string{"fetch", "--offline"}, files: emptyCrate, env: []string{"CARGO_LOG=cargo=debug"}})
	found := regexp.MustCompile("loading: registry `([a-z-]+)`").FindSubmatch(got.stderr)
	if found == nil {
		b.t.Skip("this cargo does not say where crates come from by default")
	}
	return string(found[1])
}

// TestCargoWhereOthersWrite has settings of another user's lie above: cargo would take
// programs to start from there.
func TestCargoWhereOthersWrite(t *testing.T) {
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.set("PATH=" + filepath.Dir(b.write("bin/cargo", "#!/bin/sh\ntouch "+b.home+"/ran\n")))
	if err := os.Chmod(filepath.Join(b.home, "bin/cargo"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := b.ask(filepath.Join(shared, "state"), "cargo")
	if len(l.Skipped) != 1 || !strings.Contains(l.Skipped[0], shared) {
		t.Errorf("%+v", l)
	}
	if _, err := os.Stat(b.home + "/ran"); err == nil {
		t.Error("cargo was run there")
	}
}

func TestURLsWithoutNetwork(t *testing.T) {
	for _, text := range []string{"file:///srv/x", "cdrom:[Debian]/", "copy:/x", "/opt/wheels", ""} {
		if s, ok, err := newSite(text, "x"); ok || err != nil {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{"http://", "https://user:secret@/x", "https://2130706433/", "https://ä.example/", "https://a.example:0/", "https://u:secret@a.example:99999/", "https://u:secret@[::1/"} {
		_, ok, err := newSite(text, "x")
		if ok || err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	u := &url.URL{Scheme: "https", Host: "[::ffff:10.0.0.1]:8443"}
	if target, err := targetOf(u); err != nil || target.String() != "10.0.0.1:8443" {
		t.Errorf("%v, %v", target, err)
	}
}
