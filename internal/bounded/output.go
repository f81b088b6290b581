package bounded

// Output keeps what a program writes. Beyond the bound it fails, so that the program,
// which then writes to a closed pipe, ends.
type Output struct {
	What string
	Max  int

	text []byte
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	if room := o.Max - len(o.text); len(b) > room {
		o.text = append(o.text, b[:room]...)
		return room, &TooLong{o.What, int64(o.Max)}
	}
	o.text = append(o.text, b...)
	return len(b), nil
}

// Bytes is what was written, or its beginning.
func (o *Output) Bytes() []byte { return o.text }

func (o *Output) String() string { return string(o.text) }
