// Package survey measures systems on the five axes, one axis after the other, into a run
// that goes on where it was stopped. What is measured is in the packages of the axes; a
// system is measured by being in the list.
package survey
