package storedir

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// nobody is the number under which the kernel shows users that a user namespace lacks.
const nobody = 65534

// foreign says that nobody is no user of this user namespace, but those outside of it:
// they, as root, have made it.
var foreign = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, count int64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil || inside <= nobody && nobody < inside+count {
			return false
		}
	}
	return true
})
