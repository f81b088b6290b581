package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// browser is a Chromium without a window that is asked over its debugging pipe.
type browser struct {
	*testing.T
	in      *os.File
	out     *bufio.Reader
	session string
	id      int
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	name := ""
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(n); err == nil {
			name = found
			break
		}
	}
	if name == "" {
		t.Skip("there is no Chromium on this host (Debian: apt-get install chromium)")
	}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Its own sandbox wants an ordinary user; the page is ours.
	cmd := exec.Command(name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--remote-debugging-pipe", "--user-data-dir="+t.TempDir())
	cmd.ExtraFiles = []*os.File{inRead, outWrite}         // descriptors 3 and 4
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // it leaves things there
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inRead.Close()
	outWrite.Close()
	b := &browser{T: t, in: inWrite, out: bufio.NewReaderSize(outRead, 1<<20)}
	t.Cleanup(func() {
		// Asked to end, it takes its own processes with it.
		late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		b.session = ""
		b.call("Browser.close", nil, nil)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		inWrite.Close()
		outRead.Close()
	})
	if err := outRead.SetReadDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return b
}

// call sends a command of the DevTools protocol and reads its answer.
func (b *browser) call(method string, params, answer any) {
	b.Helper()
	b.id++
	message := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.Fatal(err)
	}
	for {
		text, err := b.out.ReadBytes(0)
		if err != nil {
			b.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  any             `json:"error"`
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			b.Fatal(err)
		}
		if m.ID != b.id {
			continue // an event
		}
		if m.Error != nil {
			b.Fatalf("%s: %v", method, m.Error)
		}
		if answer != nil {
			if err := json.Unmarshal(m.Result, answer); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
}

// eval computes an expression in the page.
func (b *browser) eval(expression string, value any) {
	b.Helper()
	var answer struct {
		Result    struct{ Value json.RawMessage }
		Exception any `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	if answer.Exception != nil {
		b.Fatalf("%s: %v", expression, answer.Exception)
	}
	if err := json.Unmarshal(answer.Result.Value, value); err != nil {
		b.Fatalf("%s: %v: %s", expression, err, answer.Result.Value)
	}
}

func (b *browser) open(name string) {
	b.Helper()
	var target struct {
		ID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	b.session = attached.Session
	b.call("Page.navigate", map[string]any{"url": "file://" + name}, nil)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var ready bool
		if b.eval(`document.readyState == "complete" && !!document.querySelector("main")`, &ready); ready {
			return
		}
	}
	b.Fatal("the page is never complete")
}

// look is what a person would stumble over.
const look = `(() => {
  const box = e => e.getBoundingClientRect(), all = s => [...document.querySelectorAll(s)];
  const shown = e => { const b = box(e); return b.width > 0 && b.height > 0; };
  const lum = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c) && c != "transparent") return c; } return "rgb(255,255,255)"; };
  const contrast = e => { const s = getComputedStyle(e), f = lum(e instanceof SVGElement ? s.fill : s.color), b = lum(behind(e)); return (Math.max(f, b) + .05) / (Math.min(f, b) + .05); };
  const faint = [], covered = [];
  for (const e of all("td, th, p, h1, h2, h3, li, a:not(svg a), figcaption, svg text")) if (shown(e) && e.textContent.trim() && contrast(e) < 4.5) faint.push(e.textContent.trim().slice(0, 40) + " " + contrast(e).toFixed(2));
  for (const svg of all("svg")) {
    const texts = [...svg.querySelectorAll("text")].map(e => [e.textContent, box(e)]), out = box(svg);
    texts.forEach(([t, a], i) => {
      if (a.left < out.left - 1 || a.right > out.right + 1 || a.top < out.top - 1 || a.bottom > out.bottom + 1) covered.push(t + " leaves its picture");
      for (const [u, b] of texts.slice(i + 1)) if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4) covered.push(t + " and " + u);
    });
  }
  return {
    title: document.title, background: getComputedStyle(document.body).backgroundColor,
    wide: all("main *").filter(e => !e.closest(".scroll") && !e.closest("svg") && box(e).right > innerWidth).map(e => e.tagName + " " + e.className),
    rows: all(".ranked tbody tr").filter(shown).length, strips: all(".strips svg").filter(shown).length, curves: all(".curve polyline").filter(e => box(e).width > 0).length,
    dots: all(".strip circle").filter(shown).length, matrix: all(".matrix td").filter(shown).length, order: all(".ranked tbody tr b:first-child").filter(e => e.closest("td")?.cellIndex == 1).map(e => e.textContent),
    bars: all(".ranked .bar i").map(e => Math.round(box(e).width)), loaded: performance.getEntriesByType("resource").length, faint, covered };
})()`

// TestRendered looks at the page in a browser, as a wide one and a telephone would show it,
// in light and in dark.
func TestRendered(t *testing.T) {
	name, _ := written(t)
	b := startBrowser(t)
	b.open(name)
	var grounds []string
	for _, scheme := range []string{"light", "dark"} {
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		for _, wide := range []int{1280, 390} {
			b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": wide, "height": 900, "deviceScaleFactor": 1, "mobile": wide < 500}, nil)
			var seen struct {
				Title, Background                  string
				Rows, Strips, Curves, Dots, Matrix int
				Order, Wide                        []string
				Bars                               []int
				Loaded                             int
				Faint, Covered                     []string
			}
			b.eval(look, &seen)
			at := fmt.Sprintf("%s, %d wide", scheme, wide)
			if seen.Title != "Sandbox systems, measured: test" || seen.Loaded != 0 {
				t.Errorf("%s: %q, and %d other files", at, seen.Title, seen.Loaded)
			}
			if len(seen.Wide) > 0 {
				t.Errorf("%s: wider than the window: %q", at, seen.Wide)
			}
			if seen.Rows != 4 || seen.Strips != 2 || seen.Dots != 2*7*20 || seen.Curves != 3*4 || seen.Matrix != 80*3+2*4 {
				t.Errorf("%s: rows %d, strips %d, dots %d, curves %d, cells of matrices %d", at, seen.Rows, seen.Strips, seen.Dots, seen.Curves, seen.Matrix)
			}
			if !slices.Equal(seen.Order, []string{"cell", "gvisor", "docker", "qemu-kvm"}) {
				t.Errorf("%s: ranked %q", at, seen.Order)
			}
			if len(seen.Bars) == 0 || seen.Bars[0] < 10 {
				t.Errorf("%s: bars %v", at, seen.Bars)
			}
			if len(seen.Faint) > 0 {
				t.Errorf("%s: hard to read: %q", at, seen.Faint[:min(5, len(seen.Faint))])
			}
			if len(seen.Covered) > 0 {
				t.Errorf("%s: text over text: %q", at, seen.Covered[:min(5, len(seen.Covered))])
			}
			grounds = append(grounds, seen.Background)
		}
	}
	if grounds[0] == grounds[2] {
		t.Errorf("light and dark have the ground %s", grounds[0])
	}
	// A click on a number shows its samples.
	var opened bool
	b.eval(`document.querySelector(".strip a[href^='#raw-']").dispatchEvent(new MouseEvent("click", {bubbles: true})), true`, &opened)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if b.eval(`(e => e != null && e.checkVisibility())(document.querySelector(":target"))`, &opened); opened {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a link to samples shows nothing")
		}
	}
	if save := os.Getenv("AETHER_TEST_SCREENSHOT"); save != "" {
		b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
		var shot struct{ Data []byte }
		b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
		if err := os.WriteFile(save, shot.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
