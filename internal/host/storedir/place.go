package storedir

import (
	"os"
	"path/filepath"
	"strconv"
)

// variable moves both, for tests and for several installations on one host.
const variable = "AETHER_STATE_DIR"

// Lasting is where what lasts is kept.
func Lasting() string {
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/aether"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "aether")
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		return filepath.Join(home, ".local", "share", "aether")
	}
	return filepath.Join(os.TempDir(), "aether-"+strconv.Itoa(os.Geteuid()))
}

// Running is where what ends with this boot of the host is kept.
func Running() string {
	switch {
	case os.Getenv(variable) != "":
		return filepath.Join(Lasting(), "run")
	case os.Geteuid() == 0:
		return "/run/aether"
	case filepath.IsAbs(os.Getenv("XDG_RUNTIME_DIR")):
		return filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "aether")
	}
	return filepath.Join(Lasting(), "run")
}
