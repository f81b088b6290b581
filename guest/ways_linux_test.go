package guest_test

import (
	"context"
	"net"
	"testing"

	"aether/guest"
	"aether/sandbox"
)

// way is how a client gets to its service.
type way func(*guest.Service, guest.ClientOptions) *guest.Client

func wire(s *guest.Service, as guest.ClientOptions) *guest.Client {
	return guest.NewClient(dialer(s), as)
}

func inProcess(s *guest.Service, as guest.ClientOptions) *guest.Client {
	return guest.ClientFor(beside{service: s}, as)
}

// beside is an instance whose service is in this program.
type beside struct {
	sandbox.Instance
	service *guest.Service
}

func (b beside) Dial(ctx context.Context) (net.Conn, error) { return dialer(b.service)(ctx) }
func (b beside) Guest() (guest.InProcessService, error)     { return b.service, nil }

// bothWays runs a test over the wire and without it.
func bothWays(t *testing.T, test func(*testing.T, way)) {
	t.Run("wire", func(t *testing.T) { test(t, wire) })
	t.Run("in-process", func(t *testing.T) { test(t, inProcess) })
}

func BenchmarkStart(b *testing.B) {
	benchWays(b, func(b *testing.B, client *guest.Client) {
		for b.Loop() {
			r, err := client.Start(b.Context(), guest.Cmd{Path: "/bin/true"})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := r.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkConnect(b *testing.B) {
	benchWays(b, func(b *testing.B, client *guest.Client) {
		sleeper, err := client.Start(b.Context(), guest.Cmd{Path: "sleep", Args: []string{"600"}})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			r, err := client.Connect(b.Context(), sleeper.Pid(), guest.Cmd{})
			if err != nil {
				b.Fatal(err)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchWays(b *testing.B, bench func(*testing.B, *guest.Client)) {
	b.Run("wire", func(b *testing.B) { bench(b, wire(service(b, "/", asOurselves()), guest.ClientOptions{})) })
	b.Run("in-process", func(b *testing.B) { bench(b, inProcess(service(b, "/", asOurselves()), guest.ClientOptions{})) })
}
