package image

import "aether/sandbox"

// invalid is an error about the image that the caller named.
func invalid(format string, args ...any) *sandbox.Error {
	return sandbox.Invalidf("image", format, args...)
}

func invalidCause(cause error, format string, args ...any) *sandbox.Error {
	err := invalid(format, args...)
	err.Err = cause
	return err
}

func notFound(cause error, remedy, format string, args ...any) *sandbox.Error {
	err := invalidCause(cause, format, args...)
	err.Class, err.Remedy = sandbox.NotFound, remedy
	return err
}
