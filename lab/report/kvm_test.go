package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const measuredInKVM = `{"driver":"aethervm","peer":"firecracker","rounds":5,"took_seconds":54,
	"boot":[{"name":"aethervm, boot","p10_us":2400,"median_us":2500,"p99_us":2600,"samples":5},{"name":"firecracker, boot","p10_us":4900,"median_us":5000,"p99_us":6000,"samples":5}],
	"copy":[{"name":"aethervm, fork","median_us":50,"p10_us":40,"p99_us":60},{"name":"firecracker, fork","median_us":800},{"name":"firecracker, load of a snapshot","median_us":100},
		{"name":"qemu-kvm<b>","skipped":"it does not run <i>here</i>"}],
	"snapshot":[{"name":"aethervm, snapshot","median_us":10}]}`

// TestKVM: what was measured inside the KVM lab has a part of its own, in ratios alone.
func TestKVM(t *testing.T) {
	name, _ := written(t)
	dir := filepath.Dir(name)
	page := func() string {
		t.Helper()
		var b strings.Builder
		if err := Of(&b, dir); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if strings.Contains(page(), `id="kvm"`) {
		t.Error("it has that part, and nothing was measured there")
	}
	if err := os.WriteFile(filepath.Join(dir, KVMFile), []byte(measuredInKVM), 0o600); err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(page(), `id="kvm"`)
	part, _, _ = strings.Cut(part, `id="details"`)
	for _, want := range []string{"aethervm beside firecracker, in 5 interleaved rounds", "of firecracker, boot", `<td>aethervm, boot</td><td class="n">0.50</td><td class="n">0.48 to 0.52</td>`,
		"of firecracker, load of a snapshot", `<td>firecracker, fork</td><td class="n">8</td>`, "it does not run &lt;i&gt;here&lt;/i&gt;", "qemu-kvm&lt;b&gt;"} {
		if !strings.Contains(part, want) {
			t.Errorf("it does not have %q:\n%s", want, part)
		}
	}
	// A section without the peer has no ratio, and a time is nowhere.
	if strings.Contains(part, "snapshot is in files") || strings.Contains(part, "µs") || strings.Contains(part, " ms") {
		t.Error(part)
	}
	rows := strings.Repeat(`{"name":"a","median_us":1},`, maxKVMRows+1)
	for _, bad := range []string{"", "{}", "[]", `{"driver":"a","peer":"b"}`, `{"driver":"a","peer":"b","boot":[` + strings.TrimSuffix(rows, ",") + `]}`, strings.Repeat(" ", maxKVM+1)} {
		if _, err := parseKVM(strings.NewReader(bad)); err == nil {
			t.Errorf("%.60q is taken", bad)
		}
	}
}
