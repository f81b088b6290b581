package vmm

import "path/filepath"

// placesOf are where programs have directories that must not outlive them: those
// of machines, of snapshots on the way to forks, and of templates that are half made.
func placesOf(opts Options) []string {
	return []string{homesDir(opts), forksDir(opts), templateWork(opts)}
}

func homesDir(opts Options) string     { return filepath.Join(opts.StateDir, "running") }
func forksDir(opts Options) string     { return filepath.Join(opts.StateDir, "forks") }
func layersDir(opts Options) string    { return filepath.Join(opts.StateDir, "layers") }
func kernelsDir(opts Options) string   { return filepath.Join(opts.StateDir, "vmlinux") }
func templatesDir(opts Options) string { return filepath.Join(opts.StateDir, "templates") }
func templateWork(opts Options) string { return filepath.Join(templatesDir(opts), "work") }
