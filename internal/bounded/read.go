package bounded

import (
	"fmt"
	"io"
	"os"
)

// TooLong is what somebody sent, or a program wrote, that goes on beyond its bound.
type TooLong struct {
	What string // as in a sentence: "the answer of the daemon"
	Max  int64  // bytes
}

func (e *TooLong) Error() string { return fmt.Sprintf("%s is over %d bytes", e.What, e.Max) }

// Reader gives at most Max bytes of From. Where more follow, it fails with a TooLong
// instead of ending, so that nothing cut short is taken for the whole.
type Reader struct {
	From io.Reader
	What string
	Max  int64

	given int64
}

// Read implements io.Reader.
func (r *Reader) Read(b []byte) (int, error) {
	left := r.Max - r.given
	if left < 0 {
		return 0, &TooLong{r.What, r.Max}
	}
	if int64(len(b)) > left+1 { // one more tells whether it is the end
		b = b[:left+1]
	}
	n, err := r.From.Read(b)
	r.given += int64(n)
	if int64(n) > left {
		return int(left), &TooLong{r.What, r.Max}
	}
	return n, err
}

// ReadAll reads to the end.
func ReadAll(from io.Reader, what string, max int64) ([]byte, error) {
	return io.ReadAll(&Reader{From: from, What: what, Max: max})
}

// ReadFile is ReadAll of a file.
func ReadFile(name string, max int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, name, max)
}
