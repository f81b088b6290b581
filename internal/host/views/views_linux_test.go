package views

import (
	"slices"
	"testing"
)

func TestMountsBelow(t *testing.T) {
	const text = `21 1 8:1 / / rw - ext4 /dev/vda rw
22 21 8:2 / /usr/local/share rw - ext4 /dev/vdb rw
23 21 8:2 / /usr/local rw - ext4 /dev/vdb rw
24 21 8:2 / /usr/local rw - ext4 /dev/vdb rw
25 21 8:2 / /usrx rw - ext4 /dev/vdb rw
26 21 8:2 / /usr rw - ext4 /dev/vdb rw
27 21 8:3 / /usr/a\040b\134c rw - ext4 /dev/vdb rw
`
	if got, want := mountsBelow(text, "/usr"), []string{`/usr/a b\c`, "/usr/local", "/usr/local/share"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}
