package confine

// WithInit runs fn with the descriptor of the cell's first process, for whoever makes
// something in its namespaces: both its user and its net namespace are its own.
func (c *Cell) WithInit(fn func(pidfd int) error) error { return c.init.Near(firstFd, fn) }

// WithInit is that of the cell which it will be.
func (b *WarmCell) WithInit(fn func(pidfd int) error) error { return b.cell.WithInit(fn) }
