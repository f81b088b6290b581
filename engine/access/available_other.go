//go:build !linux

package access

import "errors"

func available() (int64, error) { return 0, errors.ErrUnsupported }
