// Command attacker is what the tests of the battery run inside cells, and beside them to see
// that each attack works where nothing is in its way. It says in one line "reached" and by
// what, or "held" and why.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// How long an attack waits for an answer, and for one that should not come. It is patient
// where that comes, as on a busy host.
var (
	answerTime  = 5 * time.Second
	silenceTime = 500 * time.Millisecond
)

const patientTime = time.Minute

// attacks take their arguments, and give what they have heard of a host that they should
// not.
var attacks = map[string]func(args []string) (heard string, err error){
	"say": say, "tls": overTLS, "dns": askName, "many": askMany, "doh": overHTTPS, "dot": overTLSNames,
	"datagram": datagram, "ping": ping, "form": form, "uring": uring, "again": again, "hosts": hostsFile,
	"hold": hold, "await": await, "listen": listen, "give": give, "take": take, "inherit": inherit, "child": child, "address": address, "websocket": webSocket,
	"begin": begin, "connections": connections, "windows": windows, "fragments": fragments,
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "patient" {
		answerTime, silenceTime, os.Args = patientTime, patientTime, os.Args[1:]
	}
	if len(os.Args) < 2 || attacks[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "attacker: which attack?")
		os.Exit(2)
	}
	heard, err := attacks[os.Args[1]](os.Args[2:])
	if err != nil {
		fmt.Printf("held: %s\n", oneLine(err.Error()))
		return
	}
	fmt.Printf("reached: %s\n", oneLine(heard))
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 300)]
}
