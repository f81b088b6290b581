// Package bounded reads what somebody else writes: up to a bound that the caller
// names, and with an error that says what was too long. What the bytes mean is not
// its business.
package bounded
