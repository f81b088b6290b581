package cli

import (
	"math"
	"strconv"
	"strings"

	"aether/sandbox"
)

// parseBytes reads a size such as 512M, 1.5G or 65536; units are powers of 1024.
func parseBytes(flag, text string) (int64, error) {
	number, unit := strings.TrimRight(text, "bBiIkKmMgGtT"), int64(1)
	switch suffix := strings.ToUpper(text[len(number):]); strings.TrimSuffix(strings.TrimSuffix(suffix, "B"), "I") {
	case "":
	case "K":
		unit = 1 << 10
	case "M":
		unit = 1 << 20
	case "G":
		unit = 1 << 30
	case "T":
		unit = 1 << 40
	default:
		return 0, sandbox.Invalidf(flag, "%q has an unknown unit; use K, M, G or T", text)
	}
	value, err := strconv.ParseFloat(number, 64)
	bytes := value * float64(unit)
	if err != nil || !(bytes >= 1) || bytes > math.MaxInt64/2 {
		return 0, sandbox.Invalidf(flag, "%q is not a size such as 512M or 1G", text)
	}
	return int64(bytes), nil
}
