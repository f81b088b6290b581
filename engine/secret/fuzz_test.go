package secret

import (
	"bytes"
	"os"
	"testing"

	"aether/sandbox"
)

// FuzzStored gives any bytes as the file of a secret. Whatever opens is the value that was
// kept, for the hosts that it was kept for: nobody without the key can make another.
func FuzzStored(f *testing.F) {
	s := newShelf(f)
	s.set(ann, marker, "api.example.com")
	s.set(bob, marker+"2")
	for _, id := range []ID{ann, bob} {
		f.Add(s.read(s.record(id)))
	}
	f.Add([]byte("{\"format\":1,\"crc32c\":0}\n\n"))
	whole := s.read(s.record(ann))
	f.Add(bytes.Replace(whole, []byte("api.example.com"), []byte("api.example.net"), 1))
	f.Fuzz(func(t *testing.T, contents []byte) {
		if err := os.WriteFile(s.record(ann), contents, 0o600); err != nil {
			t.Fatal(err)
		}
		v, hosts, err := s.Value(ann)
		switch {
		case err == nil && (string(v.Reveal()) != marker || len(hosts) != 1 || hosts[0] != "api.example.com"):
			t.Errorf("it opened as %q for %v", v.Reveal(), hosts)
		case err != nil && sandbox.ClassOf(err) != sandbox.Unavailable:
			t.Error(err)
		}
	})
}

// FuzzRecord gives any JSON as a record, which is past the checksum: it is refused, or is
// what this package could have written; and what decrypts is the value that was kept.
func FuzzRecord(f *testing.F) {
	s := newShelf(f)
	s.set(ann, marker, "api.example.com")
	k := must(readKey(s.Store.dir))(f)
	_, body, _ := bytes.Cut(s.read(s.record(ann)), []byte("\n"))
	f.Add(body)
	f.Add([]byte(`{"name":"A","tenant":"ann","hosts":["*.example.com"],"key":"0","sealed":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`))
	f.Add([]byte(`{"name":"a-b","tenant":"../x","hosts":["EXAMPLE.com"],"sealed":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r record
		if r.UnmarshalJSON(text) != nil {
			return
		}
		if !IsName(r.Name) || !sandbox.IsName(r.Tenant, maxTenant) || len(r.Hosts) > maxHosts || len(r.Sealed) <= overhead || len(r.Sealed) > MaxValue+overhead {
			t.Errorf("%+v", r)
		}
		r.KeyID = k.id
		if v, err := k.open(ann, r); err == nil && (string(v.Reveal()) != marker || len(r.Hosts) != 1 || r.Hosts[0] != "api.example.com") {
			t.Errorf("%+v opened as %q", r, v.Reveal())
		}
	})
}
