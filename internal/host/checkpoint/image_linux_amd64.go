package checkpoint

// Image is a checkpoint as it is kept on disk, but for what is in memory and in
// files without a name: those are files of their own.
type Image struct {
	Machine   Machine        `json:"machine"`
	Processes []processImage `json:"processes"`
	Contents  []*Content     `json:"contents,omitempty"`
	Files     []fileImage    `json:"files,omitempty"`

	stamped map[string]bool
}

type processImage struct {
	// Parent is the place of its parent among the processes, or -1.
	Parent int  `json:"parent"`
	Orphan bool `json:"orphan,omitempty"`
	// Last is the number that it had on the host, by which places tell groups and
	// sessions apart.
	Was         int               `json:"was"`
	State       stateImage        `json:"state"`
	Place       placeImage        `json:"place"`
	Descriptors []descriptorImage `json:"descriptors"`
	Mappings    []mappingImage    `json:"mappings,omitempty"`
}

type stateImage struct {
	NSPid     int           `json:"nspid"`
	Name      text          `json:"name"`
	SyscallAt uint64        `json:"syscall_at"`
	VMAs      []vmaImage    `json:"vmas"`
	Own       []run         `json:"own"`
	Threads   []threadState `json:"threads"`
	attributes
}

type vmaImage struct {
	Start      uint64 `json:"start"`
	End        uint64 `json:"end"`
	Protection uint8  `json:"protection"` // as mmap has it
	Offset     uint64 `json:"offset,omitempty"`
	Inode      uint64 `json:"inode,omitempty"`
	Name       text   `json:"name,omitempty"`
	Flags      string `json:"flags,omitempty"`
}

// placeImage is a Place, with the ids of the cell.
type placeImage struct {
	Dir      text     `json:"dir"`
	Root     text     `json:"root"`
	Program  text     `json:"program"`
	UID      uint32   `json:"uid"`
	GID      uint32   `json:"gid"`
	Groups   []uint32 `json:"groups,omitempty"`
	Group    int      `json:"group"`
	Session  int      `json:"session"`
	Terminal int      `json:"terminal"`
}

// descriptorImage is a Descriptor. What is named here hides what is there.
type descriptorImage struct {
	Descriptor
	Target  text
	Content *int `json:",omitempty"` // its place among the contents
}

type mappingImage struct {
	SharedMapping
	Path    text
	Content *int `json:",omitempty"`
}
