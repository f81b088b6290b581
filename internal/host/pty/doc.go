// Package pty makes pairs of terminal ends, sets their size and hides what is typed. It opens no
// path: which terminal device a sandbox has is for the caller to say.
package pty
