package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var consoleBlock = regexp.MustCompile("(?s)```console\n\\$ aether ([^\n]*)\n(.*?)```\n")

// What the manual shows must be what the command prints. Only commands whose
// answers depend on neither host nor build are run.
func TestManualShowsRealOutput(t *testing.T) {
	manual, err := os.ReadFile("../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, block := range consoleBlock.FindAllStringSubmatch(string(manual), -1) {
		args := strings.Fields(strings.ReplaceAll(block[1], "'", ""))
		if !slices.Contains([]string{"rank", "compare", "profile"}, args[0]) {
			continue
		}
		checked++
		got := run(t, nil, args...)
		printed := got.stdout + got.stderr
		if shown, cut := strings.CutSuffix(block[2], "...\n"); cut && strings.HasPrefix(printed, shown) {
			continue
		}
		if printed != block[2] {
			t.Errorf("aether %s\nprints\n%s\nand is shown as\n%s", block[1], printed, block[2])
		}
	}
	if checked < 6 {
		t.Errorf("only %d examples were found in the manual", checked)
	}
}
