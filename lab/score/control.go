package score

// Control is the score on agent-control: the share of the rubric's facts that hold by the
// system's own interface, and the share that hold through Aether, in equal parts.
func Control(native, through, facts int) float64 {
	if facts <= 0 {
		return 0
	}
	return float64(native+through) / float64(2*facts)
}
