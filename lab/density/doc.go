// Package density measures what idle sandboxes cost the host: its memory, by what it
// still has available and by what processes and the kernel hold, and the processors that
// they keep busy; and how many would fill it. It scores nothing.
package density
