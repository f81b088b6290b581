package list

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestParsePip(t *testing.T) {
	places := parsePipSearch([]byte("Looking in indexes: x\n2 location(s) to search for versions of pip:\n* https://a.invalid/simple/pip/\n  * http://u:****@b.invalid:81/pip/\n* no place\nFetching"))
	if !slices.Equal(places, []string{"https://a.invalid/simple/pip/", "http://u:****@b.invalid:81/pip/"}) {
		t.Errorf("%q", places)
	}
	if places := parsePipSearch([]byte(strings.Repeat("* https://a.invalid/pip/\n", 1000))); len(places) != maxLocations {
		t.Errorf("%d places", len(places))
	}
	settings := parsePipSettings([]byte(":env:.index-url='https://a'\nglobal.extra-index-url='\\nhttps://b\\nhttps://c'\ninstall.find-links=\"it's\"\nbroken\nglobal.x=unquoted\n"))
	want := []pipSetting{{"PIP_INDEX_URL", "index-url", "https://a"}, {"global.extra-index-url", "extra-index-url", "\nhttps://b\nhttps://c"}, {"install.find-links", "find-links", "it's"}}
	if !slices.Equal(settings, want) {
		t.Errorf("%q", settings)
	}
}

func TestParseLinks(t *testing.T) {
	at, _ := url.Parse("https://index.invalid/simple/pip/")
	links := parseLinks([]byte(`<!-- --><A class=x HREF = "../../f/x.whl#sha256=1">x</A><a href='https://f.invalid/y?a=1&amp;b=2'>y</a><a
		href=//g.invalid/z>z</a><a data-href="x" name=n><abbr href="https://no.invalid/">`), at)
	var got []string
	for _, u := range links {
		got = append(got, u.String())
	}
	if want := []string{"https://index.invalid/f/x.whl#sha256=1", "https://f.invalid/y?a=1&b=2", "https://g.invalid/z"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	based := parseLinks([]byte(`<base href="https://base.invalid/a/"><a href="b">`), at)
	if len(based) != 1 || based[0].String() != "https://base.invalid/a/b" {
		t.Errorf("%v", based)
	}
}

func TestParseNpmrc(t *testing.T) {
	got := parseNpmrc([]byte("; no=1\n# no=2\nregistry = \"https://a.invalid/\"\n//a.invalid/deep/:_authToken=${T}${NONE?}\n//b.invalid/:_auth=dTpw\n//c.invalid/:username=u\n//c.invalid/:_password="+
		base64.StdEncoding.EncodeToString([]byte("p"))+"\nnonsense\n"), environment{"T=tok"})
	for at, want := range map[string]string{
		"https://a.invalid/deep/er/": "Bearer tok", "https://a.invalid/": "", "https://b.invalid/x/": "Basic dTpw", "https://c.invalid/": "Basic dTpw", "https://d.invalid/": "",
	} {
		u, _ := url.Parse(at)
		if c := got.npmCredential(u); c.Header() != want {
			t.Errorf("%s: %q, want %q", at, c.Header(), want)
		}
	}
	if got["registry"] != "https://a.invalid/" || len(got) != 5 {
		t.Errorf("%q", got)
	}
}

func TestSumDatabase(t *testing.T) {
	for text, want := range map[string][2]string{
		"off": {}, "": {}, "sum.invalid": {"sum.invalid", "https://sum.invalid"}, "sum.invalid+1+x": {"sum.invalid", "https://sum.invalid"},
		"sum.invalid+1+x https://at.invalid/db": {"sum.invalid", "https://at.invalid/db"},
	} {
		if name, at := sumDatabase(text); name != want[0] || at != want[1] {
			t.Errorf("%q: %s, %s", text, name, at)
		}
	}
}

func TestParseCargo(t *testing.T) {
	for text, want := range map[string]string{
		"error: failed to get `x`\n\nCaused by:\n  failed to download from `https://i.invalid/a/config.json`\n": "sparse+https://i.invalid/a/",
		"Caused by:\n  failed to fetch `https://u:p@git.invalid/index.git`\n":                                   "https://u:p@git.invalid/index.git",
		"failed to read root of directory source: /x":                                                           "", "see https://doc.invalid": "", "": "",
	} {
		if got := parseCargoFailure([]byte(text)); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for text, want := range map[string]string{"px": "http://px:1080", "http://px:3128": "http://px:3128", "socks5://px": "socks5://px"} {
		if got := cargoProxy(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestParseApt(t *testing.T) {
	targets := parseAptTargets([]byte("http://a.invalid/d/ http://a.invalid/d/dists/x/ /etc/s.list:1\nhttp://a.invalid/d/ http://a.invalid/d/dists/y/ /etc/s.list:2\nshort\n\nhttp://b.invalid/ http://b.invalid/dists/x/\n"))
	if want := []aptTarget{{"http://a.invalid/d/", "http://a.invalid/d/dists/x/", "/etc/s.list:1"}, {"http://b.invalid/", "http://b.invalid/dists/x/", ""}}; !slices.Equal(targets, want) {
		t.Errorf("%q", targets)
	}
	settings := parseAptSettings([]byte("Acquire::http::Proxy \"http://px.invalid:3128\";\nAcquire::http::Proxy::near.invalid \"DIRECT\";\nDir \"/\";\nAPT::X \"\";\nbroken;\n"))
	for host, want := range map[string]string{"far.invalid": "px.invalid:3128", "near.invalid": ""} {
		via, ok := settings.proxies(host, nil).of(&url.URL{Scheme: "http", Host: host})
		if ok != (want != "") || ok && via.url.Host != want {
			t.Errorf("%s: %+v", host, via)
		}
	}
	if settings["dir"] != "/" || len(settings) != 3 {
		t.Errorf("%q", settings)
	}
}

func TestProxyExceptions(t *testing.T) {
	p := environmentProxies(environment{"HTTPS_PROXY=px.invalid:1", "https_proxy=http://lower.invalid:2", "no_proxy=a.invalid, .b.invalid,*.c.invalid,10.0.0.0/8"})
	for at, want := range map[string]bool{
		"https://x.invalid/": true, "http://x.invalid/": false, "https://a.invalid/": false, "https://sub.a.invalid/": false, "https://x.b.invalid:8/": false,
		"https://x.c.invalid/": false, "https://nota.invalid/": true, "https://10.1.2.3/": false, "https://11.1.2.3/": true,
	} {
		u, _ := url.Parse(at)
		if via, ok := p.of(u); ok != want || ok && via.url.Host != "lower.invalid:2" {
			t.Errorf("%s: %v %v", at, ok, via.url)
		}
	}
}

func TestEnvironment(t *testing.T) {
	e := environment{"A=1", "A=2", "B=3", "AB=4"}
	if e.get("A") != "2" || e.get("C") != "" || !slices.Equal(e.with("A", "B=5"), environment{"AB=4", "B=5"}) {
		t.Errorf("%q", e.with("A", "B=5"))
	}
	same := environment{"PIP_INDEX_URL=https://a:b@c.invalid", "HOME=/x"}.fingerprint()
	for _, other := range []environment{{"PIP_INDEX_URL=https://z:y@c.invalid", "HOME=/x"}, {"HOME=/x", "EDITOR=vi", "NPM_CONFIG_TOKEN=x", "CARGO_REGISTRIES_A_TOKEN=y", "PIP_INDEX_URL=https://c.invalid"}} {
		if strings.Contains(strings.Join(other, ""), "@") && other.fingerprint() != same {
			t.Errorf("%q: a secret tells environments apart", other)
		}
	}
	for _, other := range []environment{{"PIP_INDEX_URL=https://d.invalid", "HOME=/x"}, {"HOME=/x"}, {"PIP_INDEX_URL=https://a:b@c.invalid", "HOME=/y"}} {
		if other.fingerprint() == same {
			t.Errorf("%q is taken for another", other)
		}
	}
}

// FuzzAnswers has every tool say anything.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("* https://a.invalid/pip/\n"), []byte("global.index-url='https://u:p@a.invalid'\nglobal.proxy='x'"))
	f.Add([]byte(`{"registry":"https://a.invalid","@x:registry":"http://b","noproxy":["",""],"proxy":"p"}`), []byte("//a.invalid/:_auth=x\n@y:registry=${A}\n"))
	f.Add([]byte(`{"GOPROXY":"https://a.invalid,direct|off","GOSUMDB":"a+b c","GONOPROXY":"*,x/y"}`), []byte(""))
	f.Add([]byte("failed to fetch `https://u:p@a.invalid/x`"), []byte("[registries.a]\nindex = \"sparse+https://b.invalid/\"\ntoken='x'\n[http]\nproxy='p'"))
	f.Add([]byte("mirror+http://a.invalid/ http://b/ c\ntor+https://d e f\nmirror+file:/dev/null x y"), []byte("Acquire::http::Proxy \"x\";"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var ans answer
		ans.pip(first, parsePipSettings(second), nil)
		if settings, err := parseNpmSettings(first); err == nil {
			ans.npm(settings, parseNpmrc(second, nil), nil)
		}
		if settings, err := parseGoSettings(first); err == nil {
			ans.goCommand(settings, nil)
		}
		if settings, err := parseCargoSettings(second); err == nil {
			all := cargoSettings{Registries: map[string]cargoRegistry{}}
			all.join(settings)
			ans.cargo(parseCargoFailure(first), all, nil)
		}
		targets := slices.DeleteFunc(parseAptTargets(first), func(t aptTarget) bool { return strings.HasPrefix(t.repository, "mirror+file") })
		settings := parseAptSettings(second)
		delete(settings, "dir::etc::netrc")
		delete(settings, "dir::etc::netrcparts")
		ans.apt(targets, settings, nil)
		for _, s := range ans.sites {
			target, err := targetOf(s.url)
			if err != nil || s.url.User != nil {
				t.Fatalf("%v, %v", s.url, err)
			}
			if again, err := sandbox.ParseReach(target.String()); err != nil || again != target {
				t.Fatalf("%v is %v, %v", target, again, err)
			}
		}
	})
}

// FuzzPages has an index answer anything.
func FuzzPages(f *testing.F) {
	f.Add([]byte(`<base href="//b/"><a href='x'><a href=https://c.invalid:1/>`))
	f.Add([]byte(`{"files":[{"url":"x"}],"projects":[{"name":"../y"}]}`))
	f.Add([]byte("https://a.invalid/ priority:1\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		at, _ := url.Parse("https://index.invalid/simple/")
		links := parseLinks(page, at)
		more, _ := parseSimpleJSON(page, at)
		for _, u := range append(links, more...) {
			if target, err := targetOf(u); err == nil {
				if again, err := sandbox.ParseReach(target.String()); err != nil || again != target {
					t.Fatalf("%q: %v is %v, %v", u, target, again, err)
				}
			}
		}
		if len(parseMirrors(page)) > maxLocations {
			t.Fatal("too many mirrors")
		}
	})
}
