package secret

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"aether/sandbox"
)

const marker = "marker-4f1d-value"

func value(t testing.TB, text string) Value {
	t.Helper()
	v, err := NewValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestValueIsNeverPrinted walks every way in which a program prints, logs or encodes, for a
// value by itself and inside of others, where package fmt does not ask it.
func TestValueIsNeverPrinted(t *testing.T) {
	v := value(t, marker)
	type exported struct{ V Value }
	type hidden struct{ v Value }
	type pointed struct{ v *Value }
	for name, arg := range map[string]any{
		"itself": v, "pointer": &v, "exported": exported{v}, "pointer to exported": &exported{v}, "hidden": hidden{v}, "pointer to hidden": &hidden{v},
		"hidden pointer": pointed{&v}, "slice": []Value{v}, "map": map[string]Value{"k": v}, "array of hidden": [1]hidden{{v}},
		"error": fmt.Errorf("with %v: %w", v, errors.New("cause")), "any": []any{v, hidden{v}},
	} {
		for _, said := range said(t, arg) {
			wantHidden(t, name, said)
		}
	}
	for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
		for _, flags := range []string{"", "+", "#", "-", " ", "0", "200", ".3", "#200.100"} {
			wantHidden(t, "%"+flags+string(verb), fmt.Sprintf("%"+flags+string(verb), v))
			wantHidden(t, "%"+flags+string(verb)+" of a hidden one", fmt.Sprintf("%"+flags+string(verb), hidden{v}))
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, v); got != redacted {
			t.Errorf("%s: %q", verb, got)
		}
	}
	if v.String() != redacted || fmt.Sprint(slog.AnyValue(v).Resolve()) != redacted {
		t.Errorf("%s, %v", v.String(), slog.AnyValue(v).Resolve())
	}
	if string(v.Reveal()) != marker {
		t.Errorf("it reveals %q", v.Reveal())
	}
}

// said is everything that is made of an argument.
func said(t *testing.T, arg any) (list []string) {
	t.Helper()
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Error("text", "arg", arg)
	slog.New(slog.NewJSONHandler(&out, nil)).Error("json", "arg", arg)
	slog.New(slog.NewJSONHandler(&out, nil)).With("arg", arg).WithGroup("g").Error("json", slog.Group("h", "arg", arg))
	list = append(list, out.String(), fmt.Sprint(arg), fmt.Sprintln(arg), fmt.Sprintf("%v %+v %#v %s %q %x %X %d %c %U %b %e %t %p", arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg))
	encode := func(how string, text []byte, err error) { list = append(list, how, string(text), fmt.Sprint(err)) }
	text, err := json.Marshal(arg)
	encode("json", text, err)
	text, err = xml.Marshal(arg)
	encode("xml", text, err)
	out.Reset()
	err = gob.NewEncoder(&out).Encode(arg)
	encode("gob", out.Bytes(), err)
	return list
}

// wantHidden finds the value as it is, as Go and %x write its bytes, and as JSON does.
func wantHidden(t *testing.T, how, said string) {
	t.Helper()
	for _, form := range []string{marker, marker[:3], fmt.Sprintf("%x", marker[:4]), fmt.Sprintf("%X", marker[:4]), fmt.Sprint([]byte(marker[:4]))[1:12], "bWFya2", fmt.Sprintf("% x", marker[:4]), fmt.Sprintf("%#v", []byte(marker[:3]))[7:]} {
		if strings.Contains(said, form) {
			t.Errorf("%s: %q is in %q", how, form, said)
		}
	}
}

func TestValuesAreChecked(t *testing.T) {
	for _, text := range []string{"x", "a b\tc", "Bearer é", strings.Repeat("x", MaxValue)} {
		if got := value(t, text); string(got.Reveal()) != text {
			t.Errorf("%q became %q", text, got.Reveal())
		}
	}
	for _, text := range []string{"", strings.Repeat("x", MaxValue+1), "mark\x00er", "marker\n", "mark\rer", "mark\x1ber", "mark\x7fer", "marker\xff", "marker\ufffd", redacted} {
		_, err := NewValue([]byte(text))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != "value" || strings.Contains(err.Error(), "mark") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// TestValueOfJSON: it is read from a string, and what is refused is not repeated.
func TestValueOfJSON(t *testing.T) {
	var into struct{ V Value }
	if err := json.Unmarshal([]byte(`{"V":"`+marker+`\u0020x"}`), &into); err != nil || string(into.V.Reveal()) != marker+" x" {
		t.Errorf("%q, %v", into.V.Reveal(), err)
	}
	for _, text := range []string{`12345678`, `["marker"]`, `{"marker":1}`, `""`, `"marker\n"`, `"marker\ud800"`, "\"marker\xff\"", `true`, `"[secret]"`} {
		var v Value
		err := json.Unmarshal([]byte(text), &v)
		if sandbox.ClassOf(err) != sandbox.Invalid || strings.Contains(err.Error(), "marker") || strings.Contains(err.Error(), "1234") || !v.IsZero() {
			t.Errorf("%s: %v, %q", text, err, v.Reveal())
		}
	}
}

func TestClearedValueIsGone(t *testing.T) {
	v := value(t, marker)
	other, text := v, v.Reveal()
	v.Clear()
	if !v.IsZero() || !other.IsZero() || other.Reveal() != nil || !bytes.Equal(text, make([]byte, len(marker))) {
		t.Errorf("%q, %q, %q", v.Reveal(), other.Reveal(), text)
	}
	v.Clear()
	Value{}.Clear()
}

func TestNamesAndHosts(t *testing.T) {
	for _, name := range []string{"A", "_", "api_KEY_2", strings.Repeat("x", 64)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "2a", "sk-live", "a b", "é", "a\n", "a/b", ".", strings.Repeat("x", 65)} {
		if err := CheckName(name); sandbox.ClassOf(err) != sandbox.Invalid || name != "" && len(name) < 9 && len(name) > 2 && strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	got, err := CheckHosts([]string{"b.example.com", "*.Example.com", "localhost", "B.example.com", "xn--bcher-kva.example"})
	if want := "[*.example.com b.example.com localhost xn--bcher-kva.example]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, host := range []string{"", "*", "*.com", "**.example.com", "a.*.com", "*x.example.com", "example.com.", ".example.com", "a..b", "a_b.com", "-a.com", "a-.com", "bücher.example",
		"192.0.2.1", "127.1", "2130706433", "0x7f000001", "::1", "[::1]", "example.com:443", "https://example.com", "example.com/x", "a\x00b.com", "a b.com", strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 130) + "com"} {
		if _, err := CheckHosts([]string{"fine.example", host}); sandbox.ClassOf(err) != sandbox.Invalid || !strings.Contains(err.Error(), "number 2") {
			t.Errorf("%q: %v", host, err)
		}
	}
	if _, err := CheckHosts(make([]string, maxHosts+1)); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Error(err)
	}
}
