package monitor

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
)

// guestFile is what the file is called in which monitors have the memory of a guest.
const guestFile = "memory"

// readWeight is that of one process.
func readWeight(pid int) (Weight, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return Weight{}, err
	}
	defer file.Close()
	w, err := parseWeight(file)
	if err != nil {
		return w, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return w, err
	}
	for line := range strings.Lines(string(status)) {
		if tables, ok := strings.CutPrefix(line, "VmPTE:"); ok {
			kib, err := kibOf(tables)
			if err != nil {
				return w, err
			}
			w.MonitorKiB += kib
		}
	}
	return w, nil
}

// parseWeight reads the mappings of a process: a line with the file of each, and its figures.
func parseWeight(from io.Reader) (w Weight, err error) {
	guest := false
	for lines := bufio.NewScanner(from); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		name, figure := strings.CutSuffix(fields[0], ":")
		switch {
		case !figure: // the addresses of a mapping, its rights, offset, device, inode and file
			guest = len(fields) > 5 && strings.TrimPrefix(path.Base(fields[5]), "memfd:") == guestFile
		case name != "Pss" && name != "Private_Clean" && name != "Private_Dirty":
		default:
			kib, err := kibOf(strings.Join(fields[1:], " "))
			switch {
			case err != nil:
				return w, err
			case name != "Pss" && guest:
				w.OwnKiB += kib
			case name == "Pss" && guest:
				w.GuestKiB += kib
			case name == "Pss":
				w.MonitorKiB += kib
			}
		}
	}
	return w, nil
}

func kibOf(text string) (float64, error) {
	number, _ := strings.CutSuffix(strings.TrimSpace(text), " kB")
	return strconv.ParseFloat(number, 64)
}
