package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"aether/engine"
	"aether/internal/soak"
	"aether/sandbox"
)

// layerVictim makes a test binary a program that prepares a template with layers, and
// kills itself before the change of its state that victimStep says.
const layerVictim = "AETHER_ENGINE_LAYER_VICTIM"

// paired is a template whose commands leave two files each, which are the same.
func paired() engine.TemplateRequest {
	req := bashRequest("paired", "")
	for _, name := range []string{"a", "b"} {
		req.Recipe.Run = append(req.Recipe.Run, []string{"sh", "-c", fmt.Sprintf("cat /proc/sys/kernel/random/uuid > /tmp/%s1; cp /tmp/%s1 /tmp/%s2", name, name, name)})
	}
	return req
}

func prepareAndDie(dir string) int {
	step, err := strconv.ParseInt(os.Getenv(victimStep), 10, 64)
	if err == nil {
		var e *engine.Engine
		e, err = engine.Open((&house{dir: dir, keep: sandbox.Filesystem, access: openAccess}).options().BeforeWrite(killAt(step)))
		if err == nil {
			_, err = e.PrepareTemplate(context.Background(), alice, paired(), nil)
		}
		if err == nil {
			err = e.Close(context.Background())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestKilledWhileKeepingLayers: whenever the program is killed, the next one has layers
// that are whole or none, and counts what they take.
func TestKilledWhileKeepingLayers(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	stride := soak.Count(3, 1) // usually, a third of them, beginning anywhere
	step, cached := rand.N(stride), 0
	for killed := true; killed; step += stride {
		_, killed = kill(t, time.Minute, layerVictim+"="+h.dir, fmt.Sprintf("%s=%d", victimStep, step))
		e := h.open()
		found := len(h.layersOf())
		files, ran := drawn(t, e, alice, paired())
		if files["a1"] == "" || files["b1"] == "" || files["a1"] != files["a2"] || files["b1"] != files["b2"] {
			t.Errorf("killed at %d, its files are %v", step, files)
		}
		if want := []string{"rr", "cr", "cc"}[min(found, 2)]; ran != want || found > 2 {
			t.Errorf("killed at %d, there were %d layers, and of the commands %q", step, found, ran)
		}
		cached += found
		d, err := e.Doctor(t.Context(), root)
		if used, _, err2 := e.Used(t.Context(), alice, "alice"); err != nil || err2 != nil || d.Layers.Count != 2 || used.DiskBytes-d.Layers.Bytes < 0 {
			t.Errorf("there are %+v, %v of %+v, %v", d.Layers, err, used, err2)
		}
		if err := e.RemoveTemplate(t.Context(), alice, "paired"); err != nil {
			t.Error(err)
		}
		prune(t, e, engine.PruneRequest{})
		if used, _, err := e.Used(t.Context(), alice, "alice"); err != nil || used.DiskBytes != 0 || len(h.layersOf()) != 0 {
			t.Errorf("killed at %d, %+v, %v and %v are left", step, used, err, h.layersOf())
		}
		h.close(e)
	}
	if step < 15 || cached < 2 {
		t.Errorf("a preparation has %d steps only, and %d layers were left", step, cached)
	}
}
