package engine

// BeforeWrite has a function called before every change of the state directory, which
// is not made if it fails.
func (o Options) BeforeWrite(before func() error) Options {
	o.beforeWrite = before
	return o
}
