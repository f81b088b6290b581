// Package volume makes directories that outlive sandboxes, bounded where the host can
// hold that, and has them mounted while sandboxes use them. Whose they are, and who may
// use them, is the engine's business.
package volume
