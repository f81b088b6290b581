// Package overlay makes an image's layers ready to become the root of a sandbox:
// below them a layer with the places that every sandbox mounts on, and in the way
// of those places nothing but directories. Mounting is the business of internal/host/.
package overlay
