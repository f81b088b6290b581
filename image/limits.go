package image

import "sync/atomic"

// What a hostile image may at most make the host store, remember or compute.
const (
	// maxLayers is below what overlayfs joins (500) and above what builders make.
	maxLayers = 128
	// maxBytes and maxEntries bound what one Resolve unpacks.
	maxBytes   = 64 << 30
	maxEntries = 4 << 20
	// maxOverhead is what headers and padding may add to the bytes of files.
	maxOverhead = 4 << 30
	// maxNames bounds the bytes of names that are remembered until a layer's end.
	maxNames = 64 << 20

	maxPath      = 4096
	maxComponent = 255
	maxDepth     = 256
	maxXattrs    = 64 << 10

	// maxDocument bounds manifests, indexes and configurations.
	maxDocument = 8 << 20
	// maxMembers bounds the files of an archive that is an image.
	maxMembers = 64 << 10
	// maxWindow bounds the memory of a zstd decoder.
	maxWindow = 128 << 20
)

// limits bound one Resolve.
type limits struct{ bytes, entries, overhead int64 }

// budget is what is left for one image. Its layers draw on it at the same time.
type budget struct {
	bytes, entries atomic.Int64
	overhead       int64 // of each layer
}

func newBudget(from limits) *budget {
	b := &budget{overhead: from.overhead}
	b.bytes.Store(from.bytes)
	b.entries.Store(from.entries)
	return b
}

func (b *budget) takeBytes(n int64) error {
	if b.bytes.Add(-n) < 0 {
		return invalid("it unpacks to more bytes than the bound allows")
	}
	return nil
}

func (b *budget) takeEntries(n int64) error {
	if b.entries.Add(-n) < 0 {
		return invalid("it holds more entries than the bound allows")
	}
	return nil
}
