package network

import "time"

// KeepAnswers changes how long the addresses of names are kept, for tests.
func KeepAnswers(d time.Duration) { keepAnswers = d }
