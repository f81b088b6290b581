package rest_test

import (
	"context"
	"path/filepath"
	"testing"

	"aether/driver/cell"
	"aether/engine"
	"aether/image"
	"aether/rest"
	"aether/sandbox"
)

// openUnbounded opens a door to a whole engine, whose tenants may have disks without a bound.
func openUnbounded(t testing.TB) *door {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	opts := engine.Options{State: at("state"), Drivers: []sandbox.Maker{{Name: cell.Name, New: func() sandbox.Driver {
		return cell.New(cell.Options{Images: func() (*image.Store, error) { return image.Open(at("images")) }, RunDir: at("run")})
	}}}}
	opts.Access.Default.Policy.UnboundedDisk, opts.Access.Default.Policy.UnboundedMemory = true, true
	e, err := engine.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return openTo(t, e, rest.Limits{})
}

// TestVolumesOverHTTP: made, mounted, listed and deleted by their tenant and by operators.
func TestVolumesOverHTTP(t *testing.T) {
	d := openUnbounded(t)
	ann, bob, ops := d.client(t, d.http, annsKey), d.client(t, d.http, bobsKey), d.client(t, d.http, operatorKey)
	made, err := ann.CreateVolume(t.Context(), engine.VolumeRequest{Name: "data", Key: "k"})
	if err != nil || made.Tenant != "ann" {
		t.Fatalf("%+v, %v", made, err)
	}
	if again, err := ann.CreateVolume(t.Context(), engine.VolumeRequest{Name: "data", Key: "k"}); err != nil || !again.Created.Equal(made.Created) {
		t.Errorf("%+v, %v", again, err)
	}
	wantClass(t, refusal(ann.CreateVolume(t.Context(), engine.VolumeRequest{Name: "data"})), sandbox.Conflict)
	for _, tenant := range []string{"", "ann"} {
		wantClass(t, refusal(bob.GetVolume(t.Context(), tenant, "data")), sandbox.NotFound)
		wantClass(t, bob.DeleteVolume(t.Context(), tenant, "data"), sandbox.NotFound)
	}
	wantClass(t, refusal(ann.GetVolume(t.Context(), "", "../sandboxes")), sandbox.NotFound)
	box, err := ann.Create(t.Context(), engine.CreateRequest{Volumes: []engine.VolumeMount{{Name: "data", Target: "/mnt"}}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := ann.Exec(t.Context(), box.ID, rest.ExecRequest{Command: []string{"sh", "-c", "echo kept > /mnt/file; cat /mnt/file"}})
	if err != nil || result.Stdout.Text != "kept\n" {
		t.Errorf("%+v, %v", result, err)
	}
	wantClass(t, ann.DeleteVolume(t.Context(), "", "data"), sandbox.Conflict)
	if page, err := ops.ListVolumes(t.Context(), engine.VolumeQuery{Tenant: "ann", Limit: 5}); err != nil || len(page.Volumes) != 1 || page.Volumes[0].Sandboxes[0] != box.ID {
		t.Errorf("%+v, %v", page, err)
	}
	if err := ann.Destroy(t.Context(), box.ID); err != nil {
		t.Fatal(err)
	}
	if err := ops.DeleteVolume(t.Context(), "ann", "data"); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { // it is written when the answer has gone
		calls := d.audited()
		last := calls[len(calls)-1]
		return last.Operation == "volume.delete" && last.Sandbox == "data" && last.Who.Tenant == "ops"
	})
}

func refusal[T any](_ T, err error) error { return err }
