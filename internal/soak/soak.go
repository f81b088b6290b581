// Package soak says how often tests repeat what goes wrong seldom: as often as is
// usual, or in a soak (`make soak`) as often as they can. It knows no test.
package soak

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Variable makes a soak of a test run: 1 has every long test repeat all that it
// has, and N the Nth part of that.
const Variable = "AETHER_TEST_SOAK"

// Count is how often to repeat something: usually, or all of it in a soak.
func Count(usual, all int) int {
	if share := share(); share > 0 {
		return max(1, all/share)
	}
	return usual
}

// Time is how long to repeat something.
func Time(usual, all time.Duration) time.Duration {
	if share := share(); share > 0 {
		return all / time.Duration(share)
	}
	return usual
}

// share is zero outside of a soak. A value that is none must not pass for one.
func share() int {
	text := os.Getenv(Variable)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("%s=%q is not a number from 1 on", Variable, text))
	}
	return n
}
