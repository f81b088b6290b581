package image

// Root is a root file system: layers to be joined by overlayfs, host directories
// to be mounted over them, and what the image says about commands.
type Root struct {
	// Digest names the content: of the manifest, of the configuration for a
	// docker archive, of the inputs for the host. Empty for a plain directory,
	// whose content may change at any time.
	Digest string `json:"digest,omitempty"`
	// Layers are directories, lowest first and each only once. They are plain
	// paths: whoever writes mount options escapes them.
	Layers []string `json:"layers"`
	// Binds are shown over the layers, read-only.
	Binds  []Bind `json:"binds,omitempty"`
	Config Config `json:"config"`
}

// Bind is a host directory and where it is shown in the sandbox.
type Bind struct {
	Source string `json:"source"`
	Target string `json:"target"`
}
