// Package aether_test holds the house itself together: which package may import
// which, where unsafe may stand, that every package says what it is, and that
// every promise of the specification names a test that exists. It tests no
// behaviour; that is tested beside the code.
package aether_test

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// room is one folder of the house. It may import itself, what `may` lists, and
// nothing else of ours; `why` is the reason for every other ban. A folder inside
// another room that has a line of its own is a room of its own.
type room struct {
	name string
	may  []string
	why  string
}

var rooms = []room{
	{"sandbox", nil, "the vocabulary would drag an implementation into everything that speaks it"},
	{"internal/bytestring", nil, "it is about strings alone"},
	{"internal/bounded", nil, "it is about bytes alone"},
	{"internal/unread", nil, "it is about bodies of HTTP alone"},
	{"internal/host", []string{"internal/bounded", "internal/bytestring", "sandbox"}, "system calls know nothing of images, drivers or users"},
	{"internal/companion", []string{"sandbox"}, "it finds programs and knows what none of them does"},
	{"internal/soak", nil, "tests of every room use it"},
	{"internal/unprivtest", nil, "tests of every room use it"},
	{"internal/examplestest", nil, "it uses the examples as their readers do, by the go command"},
	{"internal/testroot", []string{"sandbox"}, "it copies from the host and asks nobody"},
	{"guest", []string{"internal/bounded", "internal/host", "sandbox"}, "the guest service also runs inside machines, where no driver or image store is"},
	{"image", []string{"internal/bounded", "internal/bytestring", "internal/host", "sandbox"}, "where files come from does not depend on what runs them"},
	{"driver", []string{"guest", "image", "network", "internal/bounded", "internal/companion", "internal/host", "sandbox"}, "a driver that knew the engine, the front doors or another driver could not be replaced"},
	{"engine", []string{"engine/access", "engine/secret", "engine/state", "engine/volume", "interpreter", "guest", "sandbox"}, "sandboxes, templates, pools and the fork tree work on any driver and know none by name"},
	{"engine/access", []string{"engine/state", "internal/host", "sandbox"}, "who may do what is decided without knowing how it is done"},
	{"engine/secret", []string{"engine/state", "internal/host", "sandbox"}, "how values are kept does not depend on who may use them, or where they are sent"},
	{"engine/state", []string{"internal/host", "sandbox"}, "what is remembered does not depend on what it means"},
	{"engine/volume", []string{"internal/host", "sandbox"}, "where bytes are kept does not depend on whose they are"},
	{"interpreter", []string{"guest", "sandbox"}, "code contexts go through the guest service alone, so that they work in every sandbox"},
	{"network", []string{"internal/bounded", "internal/companion", "internal/host", "internal/network", "network/policy", "sandbox"}, "what a sandbox may reach is decided without knowing what runs it"},
	{"network/networktest", []string{"network", "internal/host"}, "tests of sandboxes with a network use it"},
	{"network/policy", []string{"sandbox"}, "a decision is made of what was asked and what was said, and of nothing else"},
	{"internal/network", []string{"internal/bounded", "internal/host", "internal/unread", "network/policy", "sandbox"}, "gateways know packets and policies, and no sandbox by its name"},
	{"internal/vm", []string{"internal/host"}, "a machine knows its guest and the kernel, and neither drivers nor sandboxes: its process is given descriptors, and nothing else"},
	{"internal/vm/vmtest", nil, "its guests are instructions and registers; tests of machines and of their driver boot them"},
	{"profile", []string{"sandbox"}, "curated judgment is data: it must not change with what is built or measured here"},
	{"tool", []string{"engine", "interpreter", "guest", "profile", "sandbox"}, "what agents can do is the same over an engine and over a daemon, and in every format: it knows neither doors nor drivers"},
	{"mcp", []string{"tool", "sandbox"}, "how messages travel does not depend on what is done about them"},
	{"agent", []string{"tool", "engine", "sandbox"}, "a loop over a model's calls needs the tools alone: neither doors nor drivers, and no sandbox but by them"},
	{"rest", []string{"tool", "engine", "guest", "profile", "internal/bounded", "internal/host", "internal/unread", "sandbox"}, "a door decides nothing about sandboxes: it knows the engine by an interface, and no driver, image or command"},
	{"rest/e2b", []string{"rest", "engine", "guest", "interpreter", "internal/bounded", "internal/host", "sandbox"}, "a dialect translates between others' clients and the engine, and decides nothing"},
	{"cli", []string{"agent", "lab", "mcp", "tool", "rest", "rest/e2b", "engine", "engine/access", "interpreter", "guest", "image", "network", "profile", "internal/bounded", "internal/host", "sandbox"}, "the command line takes its drivers from cmd, so that it can be tested with any"},
	{"cmd", []string{"cli", "driver", "guest", "internal/network", "internal/vm", "sandbox"}, "only cmd joins the command line and the drivers, or the guest service and its place; it decides nothing else"},
	{"cmd/kvmtest", []string{"driver", "guest", "image", "internal/host", "internal/testroot", "sandbox"}, "it only puts machines inside a machine, with what drivers use"},
	{"cmd/hosttest", []string{"internal/host", "sandbox"}, "it boots hosts and starts the built programs there, as users do; what they are made of is not its business"},
	{"cmd/aether-probe", []string{"internal/host"}, "what runs inside a sandbox that is measured knows nothing of the one who measures"},
	{"cmd/bench", []string{"lab", "driver", "image", "sandbox"}, "it chooses what is measured and with which drivers; how is lab's"},
	{"lab", []string{"agent", "tool", "driver", "engine", "profile", "rest", "interpreter", "guest", "image", "network", "internal/bounded", "internal/companion", "internal/host", "sandbox"}, "measuring uses the product as its users do, and puts what it finds beside the curated scores"},
	{"examples", public, "they are a module of their own, as a user's program is: what they need must be exported"},
}

// public are the folders that programs of others may import.
var public = []string{"sandbox", "guest", "engine", "interpreter", "image", "network", "network/policy", "profile", "driver", "rest", "tool", "agent"}

// tryWithin are the folders whose tests make real sandboxes to try themselves in.
var tryWithin = []string{"agent", "cli", "engine", "interpreter", "rest", "rest/e2b", "tool"}

// forTests may be imported by every test, and by the packages that are made for
// tests of others: drivertest and those that are named for what they test.
var forTests = []string{"internal/soak", "internal/unprivtest", "internal/testroot", "internal/vm/vmtest", "network/networktest"}

// driversShare are the folders below driver/ that are no system's own: the suite
// that all are held to, and what drivers of one kind have in common.
var driversShare = []string{"command", "daemon", "drivertest", "guestagent", "lifetime", "vmm"}

type source struct {
	dir  string // slash-separated, relative to the module
	name string
	file *ast.File
}

func TestImportArrows(t *testing.T) {
	for _, src := range sources(t) {
		from := roomOf(src.dir)
		if from == nil {
			t.Errorf("%s: no room of this name in the house; add it to the table with its reason", src.dir)
			continue
		}
		for _, to := range imports(t, src) {
			checkArrow(t, src, from, to)
		}
	}
}

func checkArrow(t *testing.T, src source, from *room, to string) {
	t.Helper()
	inner, ours := strings.CutPrefix(to, "aether/")
	if !ours {
		return
	}
	room := roomOf(inner)
	if room == nil {
		t.Errorf("%s/%s imports %s, which is in no room", src.dir, src.name, to)
		return
	}
	target := room.name
	isTest := strings.HasSuffix(src.name, "_test.go")
	if slices.Contains(forTests, target) && (isTest || strings.HasSuffix(src.dir, "test")) {
		return
	}
	if isTest && from.name == "cmd" && (target == "rest" || target == "engine" || inner == "agent/script") {
		return // tests speak to the daemon as clients do, and have a scripted model speak to those
	}
	if isTest && slices.Contains(tryWithin, from.name) && (target == "driver" || target == "image" || target == "network") {
		return
	}
	if target != from.name && !slices.Contains(from.may, target) {
		t.Errorf("%s/%s imports %s: %s may not, because %s", src.dir, src.name, to, from.name, from.why)
	}
	if from.name == "driver" && target == "driver" && driverOf(src.dir) != "all" && driverOf(inner) != driverOf(src.dir) && !slices.Contains(driversShare, driverOf(inner)) {
		t.Errorf("%s/%s imports %s: drivers never import each other, because each must be removable alone", src.dir, src.name, to)
	}
}

// TestNoTextHasTwoVersions: no merge has left what it could not decide.
func TestNoTextHasTwoVersions(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "Makefile", "*.sh"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains("\n"+string(text), "\n<<<<<<< ") || strings.Contains("\n"+string(text), "\n>>>>>>> ") {
				t.Errorf("%s has the marks of a merge", name)
			}
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	documented := map[string]bool{}
	for _, src := range sources(t) {
		if strings.HasSuffix(src.name, "_test.go") {
			continue
		}
		documented[src.dir] = documented[src.dir] || src.file.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment; say what lives here and what does not", dir)
		}
	}
}

var promise = regexp.MustCompile(`(?m)^(\d+)\. .*`)
var testName = regexp.MustCompile("`((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]*)`")

// TestSpecificationNamesRealTests keeps docs/SPECIFICATION.md honest: each
// numbered promise names at least one test, and each test named exists.
func TestSpecificationNamesRealTests(t *testing.T) {
	text, err := os.ReadFile("docs/SPECIFICATION.md")
	if err != nil {
		t.Fatal(err)
	}
	known := testFunctions(t)
	starts := promise.FindAllIndex(text, -1)
	if len(starts) == 0 {
		t.Fatal("no numbered promise found")
	}
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		body := string(text[at[0]:end])
		number, _, _ := strings.Cut(body, ".")
		if want := strconv.Itoa(i + 1); number != want {
			t.Errorf("promise %s stands where %s should", number, want)
		}
		names := testName.FindAllStringSubmatch(body, -1)
		if len(names) == 0 {
			t.Errorf("promise %s names no test", number)
		}
		for _, name := range names {
			if !known[name[1]] {
				t.Errorf("promise %s names %s, which does not exist", number, name[1])
			}
		}
	}
}

// fieldWords are words of our own that the field has a word for.
var fieldWords = map[string]string{
	"twin": "zygote", "imprint": "checkpoint", "heir": "restorer", "estate": "shared files", "rebirth": "restore",
	"newcomer": "joining process", "entrant": "pre-joined process", "summon": "wake", "clay": "stub", "gladly": "oom_score_adj",
}

// TestFieldWords: somebody who has worked on runc, CRIU or gVisor should know every
// type by its name.
func TestFieldWords(t *testing.T) {
	apart := func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	check := func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for word := range strings.FieldsFuncSeq(string(text), apart) {
			if field, ours := fieldWords[strings.TrimSuffix(strings.ToLower(word), "s")]; ours {
				t.Errorf("%s says %q; the field says %q", name, word, field)
			}
		}
		return nil
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if err := check(page); err != nil {
			t.Fatal(err)
		}
	}
	err = walkGo(func(name string) error {
		if name == "house_test.go" {
			return nil
		}
		return check(name)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryDependencyHasAReason holds docs/dependencies.md to go.mod.
func TestEveryDependencyHasAReason(t *testing.T) {
	reasons, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.Open("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	defer mod.Close()
	for scan := bufio.NewScanner(mod); scan.Scan(); {
		fields := strings.Fields(strings.TrimPrefix(scan.Text(), "require "))
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || strings.HasSuffix(scan.Text(), "// indirect") {
			continue
		}
		if !strings.Contains(string(reasons), "`"+fields[0]+"`") {
			t.Errorf("go.mod requires %s, for which docs/dependencies.md gives no reason", fields[0])
		}
	}
}

func testFunctions(t *testing.T) map[string]bool {
	known := map[string]bool{}
	err := walkGo(func(name string) error {
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				known[fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := walkGo(func(name string) error {
		dir, base := path.Split(filepath.ToSlash(name))
		if dir == "" {
			return nil // this very file
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{strings.TrimSuffix(dir, "/"), base, file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func walkGo(visit func(name string) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		return visit(name)
	})
}

func imports(t *testing.T, src source) []string {
	var list []string
	for _, spec := range src.file.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, to)
	}
	return list
}

// roomOf is the innermost room that a folder is in.
func roomOf(dir string) *room {
	for ; dir != "." && dir != ""; dir = path.Dir(dir) {
		for i := range rooms {
			if rooms[i].name == dir {
				return &rooms[i]
			}
		}
	}
	return nil
}

func driverOf(dir string) string {
	parts := strings.Split(dir, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}
