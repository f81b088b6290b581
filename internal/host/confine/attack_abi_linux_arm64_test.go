package confine

import "errors"

// foreignABI: 64-bit programs of this architecture have one entry only.
func foreignABI(facts) error { return errors.ErrUnsupported }
