package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aether/driver/all"
)

var consoleBlock = regexp.MustCompile("(?s)```console\n\\$ aether ([^\n]*)\n(.*?)```\n")

// What the manual and the first page show must be what the command prints. Only
// commands whose answers do not depend on the host are run.
func TestManualShowsRealOutput(t *testing.T) {
	for page, least := range map[string]int{"../docs/cli.md": 6, "../README.md": 3} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if checked := checkExamples(t, string(text)); checked < least {
			t.Errorf("only %d examples were found in %s", checked, page)
		}
	}
}

// checkExamples gives the number of examples that it ran.
func checkExamples(t *testing.T, page string) (checked int) {
	for _, block := range consoleBlock.FindAllStringSubmatch(page, -1) {
		args := strings.Fields(strings.ReplaceAll(block[1], "'", ""))
		if !slices.Contains([]string{"rank", "compare", "profile"}, args[0]) {
			continue
		}
		checked++
		got := run(t, all.Drivers(), args...)
		printed := got.stdout + got.stderr
		if shown, cut := strings.CutSuffix(block[2], "...\n"); cut && strings.HasPrefix(printed, shown) {
			continue
		}
		if printed != block[2] {
			t.Errorf("aether %s\nprints\n%s\nand is shown as\n%s", block[1], printed, block[2])
		}
	}
	return checked
}
