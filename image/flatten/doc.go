// Package flatten is an image as one tree, for daemons that keep images of their own:
// the files that its layers show when they are mounted above each other, named by
// their content and packed as one tar. What a daemon does with them, and around
// them, is its driver's; disks of machines are image/disk.
package flatten
