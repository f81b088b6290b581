// Package pty makes pairs of terminal ends and sets their size. It opens no
// path: which terminal device a sandbox has is for the caller to say.
package pty
