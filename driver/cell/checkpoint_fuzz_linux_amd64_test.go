package cell

import (
	"bytes"
	"testing"

	"aether/sandbox"
)

// FuzzParseCheckpoint wants what is kept of commands to be refused or whole.
func FuzzParseCheckpoint(f *testing.F) {
	f.Add([]byte(`{"format":2,"processes":{"machine":{},"processes":[]},"commands":[{"pid":2,"config":"e30=",
		"roles":["stdout","stdin"],"streams":[{"pipe":{"inode":5,"writes":true}},{}]}]}`))
	f.Add([]byte(`{"format":2,"processes":{},"commands":[{"roles":["terminal"],"streams":[{"terminal":{"number":3}}]}]}`))
	f.Add([]byte(`{"format":2,"processes":{},"commands":[{"roles":["stdout"],"streams":[null]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCheckpoint(bytes.NewReader(data))
		if err != nil {
			if sandbox.ClassOf(err) != sandbox.Invalid {
				t.Errorf("%v", err)
			}
			return
		}
		for _, one := range c.Commands {
			if len(one.Roles) != len(one.Streams) {
				t.Errorf("%+v", one)
			}
		}
		if streams, err := c.streams(); err != nil || bytes.Contains(data, []byte("null")) && len(streams) > 0 && streams[0] == nil {
			t.Errorf("%v, %v", streams, err)
		}
	})
}
