package cli

import "io"

// detachKey, pressed twice, leaves a terminal: control and the closing bracket, which
// programs on terminals do not use.
const detachKey = 0x1d

// detacher passes on what is typed until the detach key is pressed twice in a row. One
// that was held back comes with the next key.
type detacher struct {
	from   io.Reader
	detach func()

	held bool
	left bool
	rest []byte // read already, and not asked for yet
}

// Read implements io.Reader.
func (d *detacher) Read(p []byte) (int, error) {
	for {
		if len(d.rest) > 0 {
			n := copy(p, d.rest)
			d.rest = d.rest[n:]
			return n, nil
		}
		if d.left {
			d.detach()
			return 0, io.ErrClosedPipe
		}
		typed := make([]byte, max(1, len(p)-1))
		n, err := d.from.Read(typed)
		d.pass(typed[:n])
		if err != nil && len(d.rest) == 0 && !d.left {
			return 0, err
		}
	}
}

// pass puts aside what is to be passed on, up to the keys that leave.
func (d *detacher) pass(typed []byte) {
	for _, key := range typed {
		switch {
		case key == detachKey && d.held:
			d.left = true
			return
		case key == detachKey:
			d.held = true
			continue
		case d.held:
			d.rest, d.held = append(d.rest, detachKey), false
		}
		d.rest = append(d.rest, key)
	}
}
