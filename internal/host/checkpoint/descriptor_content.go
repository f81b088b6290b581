package checkpoint

import (
	"os"

	"aether/internal/bytestring"
)

// text is a name of any bytes.
type text = bytestring.String

// Content is a copy of a file that no path leads to: memory (memfd_create, or
// shared without a name) or a file that was removed while it was open.
type Content struct {
	// Memory says that it is memory, of that Name; else Dir is where the file was.
	Memory bool   `json:"memory"`
	Name   text   `json:"name,omitempty"`
	Dir    text   `json:"dir,omitempty"`
	Size   int64  `json:"size"`
	Mode   uint32 `json:"mode"`
	Seals  int    `json:"seals,omitempty"`
	Data   []run  `json:"data,omitempty"` // where something was written

	id   fileID
	file *os.File
	// packed says that the file has only what was written, without holes.
	packed bool
}

// fileID tells files apart, whatever they are called.
type fileID struct{ device, inode uint64 }
