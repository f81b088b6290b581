package features

import "context"

const kvmDetail = "makes virtual machines with processors; no guest was run"

// tryGuest makes a machine with a processor and runs nothing on it, as kvmDetail
// says.
func tryGuest(_ context.Context, device int) error {
	m, err := newMachine(device, 64<<10)
	if err != nil {
		return err
	}
	return m.close()
}
