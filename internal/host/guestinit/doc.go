// Package guestinit is what the first process of a machine asks its kernel for:
// modules, the file systems that programs expect, a root, a clock, entropy, and
// the end. What the machine is for, and who tells it, is not its business.
package guestinit
