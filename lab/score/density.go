package score

const (
	// bestKiB is what an idle sandbox may hold for a density of 1.
	bestKiB = 100
	// coreKiB is the memory that a processor counts as much as: 4 GiB, as hosts are
	// sold. An idle sandbox that keeps a thousandth of a processor busy is thus taken
	// for 4 MiB more.
	coreKiB = 4 << 20
)

// Density is the score of an idle sandbox by the memory of the host that it holds and
// the share of a processor that it keeps busy. It is 1 up to 100 KiB; each tenfold above
// costs a fifth.
func Density(kib, processors float64) float64 {
	return fall(max(0, kib)+max(0, processors)*coreKiB, bestKiB)
}
