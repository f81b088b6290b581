package cell

import "log/slog"

// forks is what a cell keeps for being forked; on this architecture it cannot be.
type forks struct{}

func (forks) close() error           { return nil }
func (forks) hold() (release func()) { return func() {} }
func (forks) resumed()               {}
func (forks) sample(*slog.Logger)    {}
