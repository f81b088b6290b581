// Package scale measures whether a sandbox costs the same however many others are
// alive: making, using, forking and ending one beside 10, 100, 1,000 and more, and
// what each of them holds. Levels are visited on the way up and again on the way
// down, so that what the host does meanwhile falls on all of them.
package scale
