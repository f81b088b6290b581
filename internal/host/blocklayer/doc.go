// Package blocklayer is a disk that many can go on from: one file for all that was there in
// the beginning, and over it one for what each generation has written since. Nobody changes
// any of them but the uppermost, which is one machine's own.
package blocklayer
