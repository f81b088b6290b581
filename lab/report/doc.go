// Package report writes a run of the lab as one HTML page that needs nothing else: no
// network, no script, no other file. Everything in it is made of the run's records; each
// number leads to the samples behind it.
package report
