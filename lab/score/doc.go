// Package score turns what the lab measured into scores from 0 to 1, on the axes of
// the curated profiles. Each score is a pure function of figures, the same for every
// system, continuous, and monotone in each figure; docs/lab.md publishes them. It
// measures nothing and knows no system.
package score
