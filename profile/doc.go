// Package profile is the curated judgment of the isolation systems on which an
// agent runtime can stand: five scores each with the evidence behind them, their
// ranking and their comparison. It is data and arithmetic, without I/O; what a
// host can run and what was measured on it live elsewhere.
package profile
