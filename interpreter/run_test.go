package interpreter

import "testing"

// TestBeginIsTakenFirst: a call whose whole answer is there when it is looked for has what
// came before it all the same.
func TestBeginIsTakenFirst(t *testing.T) {
	for range 100 {
		c := &Context{ended: make(chan struct{})}
		c.between.add(stdout, []byte("late\n"))
		call := newCall(Limits{}.withDefaults(), nil)
		call.events = make(chan event, 2)
		for _, k := range []kind{stdout, stderr} {
			call.mark(k, beginKind)
			call.deliver(event{stream: k, message: &message{kind: endKind}})
		}
		w := &waiting{Context: c, call: call}
		if r, err := w.run(t.Context(), "test"); err != nil || r.Before.Stdout != "late\n" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}
