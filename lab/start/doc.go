// Package start measures how long it takes from asking for a sandbox to the first byte
// of its first command: by a cold start, by a restore, by a fork and by a claim from a
// pool, as far as each driver can; one at a time and many at once, all systems in turns.
// What a score is made of that is package score's business.
package start
