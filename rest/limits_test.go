package rest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"aether/sandbox"
)

func TestRatesOverTime(t *testing.T) {
	r := newRates(2, 4)
	now := time.Unix(1000, 0)
	for i := range 4 {
		if err := r.take("a", now); err != nil {
			t.Fatal(i, err)
		}
	}
	err := r.take("a", now)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Exhausted || e.After != 500*time.Millisecond {
		t.Errorf("%+v", err)
	}
	if err := r.take("a", now.Add(499*time.Millisecond)); err == nil {
		t.Error("it is let in before its time")
	}
	if err := r.take("a", now.Add(time.Second)); err != nil {
		t.Errorf("it was told to come now: %v", err)
	}
	if err := r.take("a", now.Add(-time.Hour)); err != nil {
		t.Errorf("a clock that goes back takes something away: %v", err)
	}
	for range 4 {
		if err := r.take("b", now); err != nil {
			t.Errorf("another pays for it: %v", err)
		}
	}
}

// TestRatesAreForgotten: any number of callers costs bounded memory.
func TestRatesAreForgotten(t *testing.T) {
	r := newRates(1, 2)
	now := time.Unix(1000, 0)
	for i := range 3 * maxBuckets {
		if err := r.take(fmt.Sprint(i), now); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.by); n > maxBuckets {
		t.Errorf("%d are remembered", n)
	}
	if err := r.take("new", now.Add(time.Hour)); err != nil || len(r.by) != 1 {
		t.Errorf("%d are remembered after an hour, %v", len(r.by), err)
	}
}

func TestCrowd(t *testing.T) {
	c := newCrowd("tests", 3, 2)
	first, err1 := c.enter("a")
	_, err2 := c.enter("a")
	if _, err := c.enter("a"); err1 != nil || err2 != nil || sandbox.ClassOf(err) != sandbox.Exhausted {
		t.Error(err1, err2, err)
	}
	if _, err := c.enter("b"); err != nil {
		t.Error(err)
	}
	if _, err := c.enter("c"); sandbox.ClassOf(err) != sandbox.Exhausted {
		t.Error(err)
	}
	first()
	if _, err := c.enter("c"); err != nil || c.size() != 3 {
		t.Error(err, c.size())
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "[::ffff:192.0.2.1]:80": "::ffff:192.0.2.1", "[fe80::1%eth0]:80": "fe80::/64", "@": "@",
	} {
		if got := network(address); got != want {
			t.Errorf("%s is in %s, want %s", address, got, want)
		}
	}
}

func TestNamesLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:80": true, "127.0.0.1:80": true, "127.8.0.1": true, "[::1]:80": true, "::1": true,
		"": false, "evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example:80": false, "10.0.0.1": false, "0.0.0.0": false,
	} {
		if got := namesLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
