package features

import (
	"context"
	"fmt"

	"aether/internal/host/sysinfo"
)

// Least is the oldest kernel that is supported: the oldest that the tests run on.
const Least = "6.1"

const leastMajor, leastMinor = 6, 1

func surveyRelease(context.Context) Facility {
	release, err := sysinfo.Release()
	if err != nil {
		return Judge(Facility{Name: "kernel"}, err)
	}
	return judgeRelease(release)
}

func judgeRelease(release string) Facility {
	f := Facility{Name: "kernel", State: OK, Detail: "Linux " + release}
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 || major < leastMajor || major == leastMajor && minor < leastMinor {
		f.State = Limited
		f.Detail += ", which is older than any that is supported"
		f.Cost = "what follows is what was found, but nobody tests sandboxes on such a kernel"
		f.Remedy = "Linux " + Least + " or newer"
	}
	return f
}
