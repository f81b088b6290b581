package gvisor

import (
	"os"
	"path/filepath"
	"slices"

	"aether/driver/guestagent"
	"aether/network"
	"aether/sandbox"
)

// part is one half of a snapshot: a directory with the files that runsc wrote.
type part struct {
	dir     string
	command []string // of runsc, that writes it
	names   []string
}

var (
	// files are those that the sandbox has written: what there is, the tree of it, and
	// the list and the content of its pages.
	files = part{"files", []string{"fscheckpoint"}, []string{"fscheckpoint.json", "multitar.img", "pages_meta.img", "pages.img"}}
	// memory is that of gVisor's kernel: its state, the list of its pages and the pages.
	memory = part{"checkpoint", []string{"checkpoint", "--compression=none"}, []string{"checkpoint.img", "pages_meta.img", "pages.img"}}
)

// partsOf are what a snapshot keeps: of a checkpoint, the files can be had alone too.
func partsOf(keep sandbox.Fidelity) []part {
	if keep == sandbox.Filesystem {
		return []part{files}
	}
	return []part{files, memory}
}

const manifestFile = guestagent.ManifestFile

// manifest is what a sandbox must be like to go on from a snapshot.
type manifest struct {
	Version  int                     `json:"version"`
	Image    string                  `json:"image"`
	Digest   string                  `json:"digest"`
	Hostname string                  `json:"hostname"`
	Command  sandbox.CommandDefaults `json:"command,omitzero"`
	// Limits but that on processors are held by gVisor's kernel, which a checkpoint
	// is of.
	Limits  sandbox.Limits  `json:"limits,omitzero"`
	Network sandbox.Network `json:"network,omitzero"`
	// Authority is the key of its gateway's, which programs in memory may believe.
	Authority network.AuthorityKey `json:"authority,omitempty"`
	Mounts    []sandbox.Mount      `json:"mounts,omitempty"`
	Platform  Platform             `json:"platform"`
	// Sizes are those of the files of each part, to tell a damaged snapshot.
	Sizes map[string][]int64 `json:"sizes"`
}

const manifestVersion = 2

func (i *instance) manifest() manifest {
	spec := i.Spec()
	return manifest{Version: manifestVersion, Image: spec.Image, Digest: i.Digest(), Hostname: i.hostname, Command: spec.Command,
		Limits: spec.Limits, Network: spec.Network, Mounts: spec.Mounts, Platform: i.driver.opts.Platform, Authority: i.AuthorityKey(), Sizes: map[string][]int64{}}
}

func readManifest(dir string) (manifest, error) {
	return guestagent.ReadManifest(dir, func(m manifest) bool { return m.Version == manifestVersion })
}

// has looks whether a part was kept, and is as it was. Errors: Conflict, Invalid.
func (m manifest) has(dir string, p part) error {
	if m.Sizes[p.dir] == nil {
		return &sandbox.Error{Class: sandbox.Conflict, Field: "fidelity", Reason: "the snapshot has files only, and no memory",
			Remedy: "restore its files (filesystem)"}
	}
	now, err := p.sizes(dir)
	if err != nil || !slices.Equal(now, m.Sizes[p.dir]) {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: "a file of it is missing or damaged", Err: err}
	}
	return nil
}

func (p part) sizes(dir string) (list []int64, err error) {
	for _, path := range p.paths(dir) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		list = append(list, info.Size())
	}
	return list, nil
}

func (p part) paths(dir string) (list []string) {
	for _, name := range p.names {
		list = append(list, filepath.Join(dir, p.dir, name))
	}
	return list
}
