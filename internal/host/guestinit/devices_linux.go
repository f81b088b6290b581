package guestinit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// virtioBus is where all devices of a machine are that its host made for it.
const virtioBus = "/sys/bus/virtio"

// HoldDevices keeps drivers that are loaded from now on away from devices.
func HoldDevices() error { return autoprobe("0") }

func autoprobe(value string) error {
	return os.WriteFile(filepath.Join(virtioBus, "drivers_autoprobe"), []byte(value), 0)
}

// FreeDevices ends HoldDevices: every device that has no driver gets the one that
// was loaded for it, and is looked at only now.
func FreeDevices() error {
	if err := autoprobe("1"); err != nil {
		return err
	}
	devices, err := os.ReadDir(filepath.Join(virtioBus, "devices"))
	if err != nil {
		return err
	}
	for _, device := range devices {
		_, err := os.Lstat(filepath.Join(virtioBus, "devices", device.Name(), "driver"))
		if errors.Is(err, fs.ErrNotExist) {
			err = os.WriteFile(filepath.Join(virtioBus, "drivers_probe"), []byte(device.Name()), 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
