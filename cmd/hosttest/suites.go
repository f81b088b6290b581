package main

import "path"

// suite is a choice of the tests of one folder.
type suite struct {
	folder    string
	run, skip string // patterns, as go test takes them
}

// program is the folder's test binary in the machine, beside its testdata.
func (s suite) program() string { return path.Join(s.dir(), path.Base(s.folder)+".test") }

func (s suite) dir() string { return path.Join(labDir, "tests", s.folder) }

const (
	conforms = `^TestConformance$`
	escapes  = `^TestEscape`
	forks    = `^Test(Fork|Checkpoint|Snapshot|Restore|DamagedCheckpoint|ForgedCheckpoint)`
	// untold is what forks carry over that some kernels do not tell or offer.
	untold = `^TestForkCarriesOver$/^(eventfd|removed|barriers)`
	// kinds are all that forks and images carry over, and refuse.
	kinds = `^Test(Fork|Image)`
	// again are tests that run all others once more as an ordinary user, which is a
	// way of the lab's own.
	again = `^TestAgain`
)

// suites are the steps that run tests.
var suites = map[string][]suite{
	stepOlder:       {{folder: "internal/host/checkpoint", skip: kinds}, {folder: "internal/host/checkpoint", run: untold}},
	stepConformance: {{folder: "driver/cell", run: conforms}},
	stepEscape:      {{folder: "internal/host/confine", run: escapes}, {folder: "driver/cell", run: escapes}},
	stepFork: {
		{folder: "internal/host/zygote", skip: again}, {folder: "internal/host/checkpoint", run: kinds}, {folder: "driver/cell", run: forks},
	},
	stepOwn: {
		{folder: "driver/cell", skip: conforms + "|" + escapes + "|" + forks + "|" + again},
		{folder: "internal/host/confine", skip: escapes + "|" + again},
		{folder: "internal/host/cgroup", skip: again},
		{folder: "internal/host/spawn", skip: again},
		{folder: "internal/host/features", skip: again},
		{folder: "cmd/aether", skip: again},
	},
}

// testFolders are those that have a test binary in the machine.
func testFolders(wanted []string) (list []string) {
	known := map[string]bool{}
	for _, step := range wanted {
		for _, s := range suites[step] {
			if !known[s.folder] {
				known[s.folder], list = true, append(list, s.folder)
			}
		}
	}
	return list
}
