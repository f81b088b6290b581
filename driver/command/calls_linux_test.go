package command

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCallsAreThoseOfTheHostsFilter reads the one list from its source: it has
// numbers when it runs, and no names.
func TestCallsAreThoseOfTheHostsFilter(t *testing.T) {
	// Cells refuse these, whole or in part, for the sake of forks, which other systems
	// make in other ways, whiteouts, which are plain files to those, and other limits of core
	// dumps, which programs end over that are refused them.
	want := []string{"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self",
		"madvise", "mknodat", "prctl", "prlimit64", "process_madvise", "renameat2", "setrlimit"}
	name := regexp.MustCompile(`unix\.SYS_(\w+)`)
	for _, file := range []string{"allowed_linux.go", "allowed_linux_amd64.go", "allowed_linux_arm64.go"} {
		text, err := os.ReadFile("../../internal/host/seccomp/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range name.FindAllStringSubmatch(string(text), -1) {
			want = append(want, strings.ToLower(found[1]))
		}
	}
	for _, call := range want {
		if !slices.Contains(Calls, call) {
			t.Errorf("%s is allowed in cells and not here", call)
		}
	}
	for _, call := range Calls {
		if !slices.Contains(want, call) {
			t.Errorf("%s is allowed here and not in cells", call)
		}
	}
}
