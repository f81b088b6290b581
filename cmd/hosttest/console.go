package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// console reads what a machine prints.
type console struct {
	log     io.Writer // of everything else
	jobs    []job
	host    string
	arrived func(result)
}

// follow reads until the machine says that there is no more, or its console ends.
// A line that claims to be a result and is none is an error, which does not keep
// later ones from being read.
func (c console) follow(r io.Reader) (results []result, whole bool, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, more := readLine(in)
		found, ok, parseErr := parseResult(line, c.jobs)
		err = errors.Join(err, parseErr)
		switch {
		case ok && parseErr == nil:
			found.Host = c.host
			results = add(results, found)
			c.arrived(found)
		case line == endMark:
			return results, true, err
		default:
			fmt.Fprintln(c.log, line)
		}
		if !more {
			return results, false, err
		}
	}
}

// readLine gives the next line, of which no more than mostLine is kept.
func readLine(in *bufio.Reader) (line string, more bool) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		if room := mostLine - len(text); room > 0 {
			text = append(text, part[:min(len(part), room)]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return strings.Trim(string(text), "\r\n"), err == nil
	}
}
