// Package image finds the root file system of a sandbox: the host's own system,
// a directory, an OCI layout, a docker archive or a registry's image, unpacked
// once into a store of layers that sandboxes share read-only. Mounting them and
// running anything in them is not its business.
//
// # References
//
//	"" or "host"          the host's system without its homes and secrets
//	/dir or ./dir         a directory that is a root file system
//	/dir[:tag|@sha256:…]  an OCI layout: a directory with a file oci-layout
//	/file[:tag|@sha256:…] an archive made by docker save, or an OCI layout in a tar
//	name[:tag|@sha256:…]  an image of a registry
//
// What a registry's tag means is asked once and then kept, so that making a
// sandbox never waits for a network; Remove makes the next Resolve ask again.
//
// # Trust
//
// Archives, manifests and configurations are hostile. Blobs are checked against
// their digests, unpacked layers against their diff ids; sizes, counts and depths
// are bounded; entries cannot leave the layer's directory; devices, set-user-id
// bits and privileged attributes are dropped. A layer is stored under its diff id,
// so whoever knows that digest can use a stored layer: a store belongs to one
// user of the host, not to several tenants that hide images from each other.
package image
