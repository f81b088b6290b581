// Package features finds out what this host's kernel lets this user do, by trying
// each thing in a child or on a scratch object and never by version. It makes no
// sandboxes and decides nothing; drivers and people read its answers.
package features
