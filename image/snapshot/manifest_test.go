package snapshot

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"aether/sandbox"
)

var digest = strings.Repeat("0123456789abcdef", 4)

// sample has one entry of every kind, with names that are no text.
var sample = []entry{
	{Path: ".", Kind: kindDir, Mode: 0o755},
	{Path: "a", Kind: kindDir, Mode: 0o1777, UID: 7, GID: maxID, Seconds: -1, Nanos: 999999999, Opaque: true, Attrs: []attr{{"user.x", "\xff\x00"}}},
	{Path: "a-b", Kind: kindSymlink, Target: "../../\xfe"},
	{Path: "a/b", Kind: kindFile, Size: 3, Blob: digest, Same: 2},
	{Path: "a/c", Kind: kindFile, Size: 3, Blob: digest, Same: 2},
	{Path: "a/\xff\n\"", Kind: kindFile, Mode: 0o600, Size: 1 << 40, Blob: digest, Extents: []extent{{0, 1}, {1 << 30, 5}}},
	{Path: "fifo", Kind: kindFifo},
	{Path: "gone", Kind: kindWhiteout},
	{Path: "hole", Kind: kindFile, Size: 5},
	{Path: "socket", Kind: kindSocket},
}

func encoded(t testing.TB, list []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := encode(&out, list); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestManifestIsReadAsItWasWritten(t *testing.T) {
	got, err := decode(bytes.NewReader(encoded(t, sample)))
	if err != nil || !reflect.DeepEqual(got, sample) {
		t.Errorf("%v\n%+v", err, got)
	}
}

func TestManifestRefuses(t *testing.T) {
	dir := entry{Path: "d", Kind: kindDir}
	for name, list := range map[string][]entry{
		"an absolute path":           {{Path: "/etc", Kind: kindDir}},
		"a path that climbs":         {{Path: "..", Kind: kindDir}},
		"a path that climbs later":   {dir, {Path: "d/../../x", Kind: kindFifo}},
		"an unclean path":            {dir, {Path: "d//x", Kind: kindFifo}},
		"an empty path":              {{Path: "", Kind: kindDir}},
		"a zero byte":                {{Path: "a\x00b", Kind: kindFifo}},
		"a long path":                {{Path: text(strings.Repeat("a/", 2048)), Kind: kindFifo}},
		"a long name":                {{Path: text(strings.Repeat("a", 256)), Kind: kindFifo}},
		"a missing parent":           {{Path: "a/b", Kind: kindFifo}},
		"a link as parent":           {{Path: "a", Kind: kindSymlink, Target: "/"}, {Path: "a/b", Kind: kindFifo}},
		"the wrong order":            {{Path: "b", Kind: kindFifo}, {Path: "a", Kind: kindFifo}},
		"a name twice":               {dir, dir},
		"an unknown kind":            {{Path: "a", Kind: "device"}},
		"a root that is a link":      {{Path: ".", Kind: kindSymlink, Target: "/"}},
		"a root that is hidden":      {{Path: ".", Kind: kindWhiteout}},
		"a set-user-id bit":          {{Path: "a", Kind: kindFile, Mode: 0o4755}},
		"an owner that is no cell's": {{Path: "a", Kind: kindFile, UID: maxID + 1}},
		"a time that is none":        {{Path: "a", Kind: kindFile, Nanos: 1e9}},
		"an attribute of overlays":   {{Path: "a", Kind: kindFile, Attrs: []attr{{"trusted.overlay.redirect", "/"}}}},
		"large attributes":           {{Path: "a", Kind: kindFile, Attrs: []attr{{"user.a", text(strings.Repeat("x", maxAttrs))}}}},
		"attributes of a link":       {{Path: "a", Kind: kindSymlink, Target: "b", Attrs: []attr{{"user.a", "b"}}}},
		"a link to nothing":          {{Path: "a", Kind: kindSymlink}},
		"a target of a file":         {{Path: "a", Kind: kindFile, Target: "b"}},
		"an opaque file":             {{Path: "a", Kind: kindFile, Opaque: true}},
		"a digest that is a path":    {{Path: "a", Kind: kindFile, Size: 1, Blob: "../../../../etc/passwd"}},
		"a digest in capitals":       {{Path: "a", Kind: kindFile, Size: 1, Blob: strings.ToUpper(digest)}},
		"a size below zero":          {{Path: "a", Kind: kindFile, Size: -1}},
		"extents of nothing":         {{Path: "a", Kind: kindFile, Size: 9, Extents: []extent{{0, 1}}}},
		"extents over the end":       {{Path: "a", Kind: kindFile, Size: 9, Blob: digest, Extents: []extent{{8, 2}}}},
		"extents that overflow":      {{Path: "a", Kind: kindFile, Size: 9, Blob: digest, Extents: []extent{{1, 1<<63 - 1}}}},
		"extents that overlap":       {{Path: "a", Kind: kindFile, Size: 9, Blob: digest, Extents: []extent{{0, 3}, {2, 1}}}},
		"a link between kinds":       {{Path: "a", Kind: kindFile, Same: 1}, {Path: "b", Kind: kindFifo, Same: 1}},
		"a link between contents":    {{Path: "a", Kind: kindFile, Same: 1}, {Path: "b", Kind: kindFile, Size: 4, Same: 1}},
		"a link between directories": {{Path: "a", Kind: kindDir, Same: 1}, {Path: "b", Kind: kindDir, Same: 1}},
	} {
		_, err := decode(bytes.NewReader(encoded(t, list)))
		if sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := string(encoded(t, sample))
	for name, manifest := range map[string]string{
		"nothing":          "",
		"no header":        whole[strings.Index(whole, "\n")+1:],
		"another format":   strings.Replace(whole, `"format":1`, `"format":2`, 1),
		"fewer entries":    whole[:strings.LastIndex(whole[:len(whole)-1], "\n")+1],
		"a cut entry":      whole[:len(whole)-5],
		"an unknown field": strings.Replace(whole, `"kind":"fifo"`, `"kind":"fifo","device":8`, 1),
		"two in a line":    strings.Replace(whole, "}\n", "}{}\n", 2),
	} {
		if _, err := decode(strings.NewReader(manifest)); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMergeShowsWhatTwoLayersShow(t *testing.T) {
	dir := func(path text) entry { return entry{Path: path, Kind: kindDir} }
	file := func(path text) entry { return entry{Path: path, Kind: kindFile} }
	opaque := func(path text) entry { return entry{Path: path, Kind: kindDir, Opaque: true} }
	gone := func(path text) entry { return entry{Path: path, Kind: kindWhiteout} }
	lower := []entry{dir("."), dir("a"), file("a-b"), file("a/x"), dir("a/y"), file("a/y/z"), gone("b"), opaque("c"), file("c/x"), file("d")}
	for _, c := range []struct {
		name        string
		upper, want []entry
	}{
		{"nothing", []entry{dir(".")}, lower},
		{"a removed directory", []entry{dir("."), gone("a")}, []entry{dir("."), gone("a"), file("a-b"), gone("b"), opaque("c"), file("c/x"), file("d")}},
		{"a replaced directory", []entry{dir("."), opaque("a"), file("a/n")},
			[]entry{dir("."), opaque("a"), file("a-b"), file("a/n"), gone("b"), opaque("c"), file("c/x"), file("d")}},
		{"a file below", []entry{dir("."), dir("a"), dir("a/y"), gone("a/y/z")},
			[]entry{dir("."), dir("a"), file("a-b"), file("a/x"), dir("a/y"), gone("a/y/z"), gone("b"), opaque("c"), file("c/x"), file("d")}},
		{"a directory where nothing was", []entry{dir("."), dir("b")},
			[]entry{dir("."), dir("a"), file("a-b"), file("a/x"), dir("a/y"), file("a/y/z"), opaque("b"), opaque("c"), file("c/x"), file("d")}},
		{"more in an opaque one", []entry{dir("."), dir("c"), file("c/n")},
			[]entry{dir("."), dir("a"), file("a-b"), file("a/x"), dir("a/y"), file("a/y/z"), gone("b"), opaque("c"), file("c/n"), file("c/x"), file("d")}},
		{"a directory for a file", []entry{dir("."), dir("d")},
			[]entry{dir("."), dir("a"), file("a-b"), file("a/x"), dir("a/y"), file("a/y/z"), gone("b"), opaque("c"), file("c/x"), opaque("d")}},
		{"a file for a directory", []entry{dir("."), file("c")},
			[]entry{dir("."), dir("a"), file("a-b"), file("a/x"), dir("a/y"), file("a/y/z"), gone("b"), file("c"), file("d")}},
	} {
		if got := merge(lower, c.upper); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, paths(got), paths(c.want))
		}
	}
}

func paths(list []entry) (out string) {
	for _, e := range list {
		out += fmt.Sprintf("%s:%s:%v ", e.Path, e.Kind, e.Opaque)
	}
	return out
}

func TestMergeKeepsFilesApart(t *testing.T) {
	got := merge([]entry{{Path: "a", Kind: kindFifo, Same: 1}, {Path: "b", Kind: kindFifo, Same: 1}},
		[]entry{{Path: "c", Kind: kindFifo, Same: 1}, {Path: "d", Kind: kindFifo, Same: 1}})
	if got[0].Same != got[1].Same || got[2].Same != got[3].Same || got[0].Same == got[2].Same {
		t.Errorf("%+v", got)
	}
}

// FuzzDecode wants what is accepted to be what encode writes, with every parent a
// directory that came before.
func FuzzDecode(f *testing.F) {
	whole := encoded(f, sample)
	f.Add(whole)
	f.Add([]byte("{\"format\":1,\"entries\":0}\n"))
	f.Add(whole[:len(whole)/2])
	f.Add(bytes.ReplaceAll(whole, []byte("a/"), []byte("../")))
	f.Add([]byte("{\"format\":1,\"entries\":1}\n{\"path\":{\"base64\":\"Li4=\"},\"kind\":\"dir\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decode(bytes.NewReader(data))
		if err != nil {
			if sandbox.ClassOf(err) != sandbox.Invalid {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := decode(bytes.NewReader(encoded(t, list)))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%v: %d entries became %d", err, len(list), len(again))
		}
		dirs := map[string]bool{".": true}
		for _, e := range list {
			parent := "."
			if i := strings.LastIndex(string(e.Path), "/"); i >= 0 {
				parent = string(e.Path)[:i]
			}
			if !dirs[parent] || strings.Contains("/"+string(e.Path)+"/", "/../") {
				t.Fatalf("%q was accepted", e.Path)
			}
			dirs[string(e.Path)] = e.Kind == kindDir
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"format":1,"image":"host","manifest":"` + digest + `","entries":1,"created":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := parseRecord(data)
		if err != nil && sandbox.ClassOf(err) != sandbox.Invalid {
			t.Fatal(err)
		}
		if err == nil && (rec.Format != recordFormat || !isDigest(rec.Manifest)) {
			t.Fatalf("%+v was accepted", rec)
		}
	})
}
