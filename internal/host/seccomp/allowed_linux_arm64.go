package seccomp

// archAllowed is empty: arm64 never had the older forms.
var archAllowed []uint32

var archChecks []check
