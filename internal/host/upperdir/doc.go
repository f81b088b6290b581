// Package upperdir reads what a sandbox wrote over its image, which is the upper
// directory of its overlay, and brings it into the root of another sandbox: at once,
// or by way of an archive. Where
// that directory is, who may copy it and how it is kept are not its business.
//
// Everything in the directory was made by hostile code: no link is followed, no
// device or fifo is opened, and depth, count and time are bounded. Nothing may
// run in the sandbox meanwhile.
package upperdir
