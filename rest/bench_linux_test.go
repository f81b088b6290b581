package rest_test

import (
	"testing"

	"aether/engine"
	"aether/guest"
	"aether/rest"
)

// BenchmarkExec is a command that ends at once, by the wire of its guest service in this
// program and by the door.
func BenchmarkExec(b *testing.B) {
	d := open(b, rest.Limits{Rate: 1e9})
	made, err := d.local(b).Create(b.Context(), engine.CreateRequest{})
	if err != nil {
		b.Fatal(err)
	}
	box, err := d.engine.find(engine.Caller{Operator: true}, made.ID)
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]*guest.Client{
		"wire":    guest.NewClient(box.instance.Dial, guest.ClientOptions{}),
		"process": guest.ClientFor(box.instance, guest.ClientOptions{}),
		"unix":    d.local(b).GuestOf(made.ID, guest.ClientOptions{}),
		"tcp":     d.client(b, d.http, operatorKey).GuestOf(made.ID, guest.ClientOptions{}),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				running, err := c.Start(b.Context(), guest.Cmd{Path: "/bin/true"})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := running.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGet is the least that the door takes.
func BenchmarkGet(b *testing.B) {
	d := open(b, rest.Limits{Rate: 1e9})
	made, err := d.local(b).Create(b.Context(), engine.CreateRequest{})
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]*rest.Client{"unix": d.local(b), "tcp": d.client(b, d.http, operatorKey), "tls": d.client(b, d.https, operatorKey)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.Get(b.Context(), made.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
