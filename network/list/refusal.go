package list

import (
	"net"
	"sync"
)

// refusal is a proxy on the loopback that refuses everything. A tool that must go
// through it says what it would have asked for, and asks nobody.
type refusal struct {
	listener net.Listener
	done     sync.WaitGroup
}

func refuseAll() (*refusal, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &refusal{listener: listener}
	r.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close() // it is the refusal
		}
	})
	return r, nil
}

func (r *refusal) url() string { return "http://" + r.listener.Addr().String() }

// environment has every tool that looks there go through the proxy, to whatever host.
func (r *refusal) environment() []string {
	changes := []string{"no_proxy", "NO_PROXY"}
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		changes = append(changes, name+"="+r.url())
	}
	return changes
}

func (r *refusal) Close() error {
	err := r.listener.Close()
	r.done.Wait()
	return err
}
