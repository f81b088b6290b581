//go:build race

package cell_test

// raceEnabled says that every step costs several times more.
const raceEnabled = true
