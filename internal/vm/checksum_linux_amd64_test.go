package vm

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestSum: zeros that are only counted come to the same as those that are looked at.
func TestSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var (
			s   sum
			all []byte
		)
		for range random.IntN(6) {
			zeros := random.IntN(1 << random.IntN(20))
			s.zeros += zeros
			all = append(all, make([]byte, zeros)...)
			run := bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(5000))
			s.add(run)
			all = append(all, run...)
		}
		want := crc32.Checksum(all, crc32.MakeTable(crc32.Castagnoli))
		if got := s.of(); s.some && got != want || !s.some && got != 0 {
			t.Fatalf("%d bytes: %x, want %x", len(all), got, want)
		}
	}
}

func TestSkim(t *testing.T) {
	page, zero := bytes.Repeat([]byte{1}, pageSize), make([]byte, pageSize)
	last := append(make([]byte, pageSize-1), 1) // in its last byte alone
	for _, c := range []struct {
		pages       [][]byte
		zeros, some int
	}{
		{nil, 0, 0},
		{[][]byte{zero}, pageSize, 0},
		{[][]byte{zero, zero, last}, 2 * pageSize, pageSize},
		{[][]byte{page, last, zero, page}, 0, 2 * pageSize},
		{[][]byte{zero, page[:1]}, pageSize, 1},
		{[][]byte{zero[:1]}, 1, 0},
	} {
		if zeros, some := skim(bytes.Join(c.pages, nil)); zeros != c.zeros || some != c.some {
			t.Errorf("%d pages: %d and %d, want %d and %d", len(c.pages), zeros, some, c.zeros, c.some)
		}
	}
}
