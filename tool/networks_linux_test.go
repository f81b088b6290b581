package tool

import (
	"io"
	"net/http"
	"slices"
	"testing"
)

func (h *house) tryNetworks(t *testing.T, s *Session, id string) {
	if n := do[Network](t, s, "network_get", args{"sandbox": id}); n.Mode != "egress" || !slices.Equal(n.Allow, []string{"api.example.com:443"}) {
		t.Errorf("the network is %+v", n)
	}
	do[Network](t, s, "network_set", args{"sandbox": id, "allow": []string{"other.example.com:80"}})
	if got, err := h.engine.Get(t.Context(), alice, id); err != nil || !slices.Equal(got.Spec.Network.Allow, []string{"other.example.com:80"}) {
		t.Errorf("%+v, %v", got.Spec.Network, err)
	}
	refuse(t, s, "invalid", "network_set", args{"sandbox": id, "allow": []string{"a b"}})
	ran := do[Ran](t, s, "command_run", args{"sandbox": id, "command": "python3 -c \"import socket; socket.create_connection(('api.example.com', 443), 5)\""})
	if n := do[Network](t, s, "network_get", args{"sandbox": id}); *ran.ExitCode == 0 || len(n.Refused) == 0 || n.Refused[0].To == "" {
		t.Errorf("what was refused (status %d): %+v", *ran.ExitCode, n)
	}
	refuse(t, s, "unavailable", "port_expose", args{"sandbox": id, "port": 8099})
	started := do[Started](t, s, "command_start", args{"sandbox": id, "command": "exec python3 -u -m http.server 8099 -d /tmp"})
	shell(t, s, id, "for i in $(seq 100); do python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8099))\" 2>/dev/null && exit; done; exit 1")
	open := do[Exposed](t, s, "port_expose", args{"sandbox": id, "port": 8099})
	res, err := http.Get(open.URL + "/kept")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); string(text) != "kept\n" || err != nil {
		t.Errorf("through the port came %q, %v", text, err)
	}
	do[Done](t, s, "command_signal", args{"sandbox": id, "process": started.Process, "signal": "KILL"})
	refuse(t, h.session(alice, Options{}), "unsupported", "port_expose", args{"sandbox": id, "port": 8099})
}

func trySystems(t *testing.T, s *Session) {
	list := do[SystemReports](t, s, "system_list", args{"usable": true})
	if len(list.Systems) != 1 || list.Systems[0].System != "cell" || list.Systems[0].Fork == "" {
		t.Errorf("the systems are %+v", list)
	}
	rank := do[Ranking](t, s, "system_rank", args{"weights": "isolation=3", "needs": []string{"isolation>=0.85"}})
	if len(rank.Systems) == 0 || rank.Systems[0].Weighted == nil || rank.Systems[0].Isolation < 0.85 {
		t.Errorf("the ranking is %+v", rank)
	}
	refuse(t, s, "invalid", "system_rank", args{"weights": "beauty=3"})
	refuse(t, s, "invalid", "system_rank", args{"needs": []string{"isolation"}})
	if c := do[Comparison](t, s, "system_compare", args{"a": "gvisor", "b": "docker"}); len(c.Axes) != 5 || c.Axes[2].Delta <= 0 || c.Axes[2].EvidenceA == "" {
		t.Errorf("compared: %+v", c)
	}
	refuse(t, s, "invalid", "system_compare", args{"a": "gvisor", "b": "nothing"})
	if health := do[Health](t, s, "system_doctor", args{}); !slices.Equal(health.Usable, []string{"cell"}) || health.Boundary != "process" {
		t.Errorf("the host is %+v", health)
	}
}
