package daemon

import (
	"fmt"
	"strings"

	"aether/lab"
)

// Names of the rows.
const (
	rowEngine = "engine in this process"
	rowUnix   = "daemon, unix socket"
	rowStream = "daemon, unix socket, streamed"
	rowTCP    = "daemon, TCP"
	// By the tools of `aether mcp`, over its standard streams.
	rowMCP = "daemon, aether mcp"
	// What every answer takes, whatever is in it.
	rowUnixEmpty = "daemon, unix socket, nothing"
	rowTCPEmpty  = "daemon, TCP, nothing"
	rowDocker    = "Docker's API"
	// What agents do, by the engine in this process.
	rowFork = "a fork"
	rowUndo = "mark, command, roll back"
	rowStep = "a step of the loop"
	// By the API of E2B: its requests, sent by a Go program as those of the other rows are,
	// and its official client.
	rowE2BWire = "daemon, TCP, E2B's requests"
	rowE2BNode = "daemon, TCP, E2B's client in node"
)

// Targets that the door is held to.
const (
	targetExec   = 400.0 // us more than in process
	targetCreate = 600.0
	targetDocker = 0.1  // of Docker's
	targetMemory = 60.0 // MiB for 1000
	targetPage   = 2.0
	targetClaim  = 4.0 // times in process
	targetMCP    = 2.0 // times the Go client
	targetUndo   = 4.0 // times a fork
	targetStep   = 1000.0
	targetE2B    = 2.0
	targetCode   = 1.5
)

// Report is everything that was found out. A value that was not measured is absent, never
// zero.
type Report struct {
	// Exec is a command in a sandbox that lives, to its end; Create is until the answer;
	// Life is both and the sandbox's end.
	Exec   []lab.Row `json:"exec"`
	Create []lab.Row `json:"create"`
	Life   []lab.Row `json:"life"`
	// Claim is of a child that is kept ready, to what its first command says.
	Claim []lab.Row `json:"claim"`
	// Undo is a command that is taken back, beside a fork of the same sandbox; Step is what the
	// loop of an agent takes for a step besides the model and the call.
	Undo []lab.Row `json:"undo"`
	Step []lab.Row `json:"step"`
	// E2B is making, a command and the end by the doors of /v1 and of E2B; Code a sum in a
	// context that lives.
	E2B  []lab.Row `json:"e2b"`
	Code []lab.Row `json:"code"`
	// Pages are of 100 sandboxes, when there are so many and when there are more.
	Pages   []lab.Row     `json:"pages"`
	Memory  Memory        `json:"memory"`
	Targets []lab.Verdict `json:"targets"`
}

// Memory is the daemon's own, in KiB that no other process has: with nothing, and with
// sandboxes that do nothing.
type Memory struct {
	EmptyKiB int64 `json:"empty_kib"`
	IdleKiB  int64 `json:"idle_kib"`
	Idle     int   `json:"idle"`
}

func (r *Report) complete() {
	lab.CompareRows(r.Exec, rowEngine, rowUnix)
	lab.CompareRows(r.Create, rowEngine)
	lab.CompareRows(r.Life, rowEngine, rowDocker)
	lab.CompareRows(r.Claim, rowEngine)
	lab.CompareRows(r.Undo, rowFork)
	lab.CompareRows(r.E2B, rowTCP)
	lab.CompareRows(r.Code, rowTCP)
	if len(r.Pages) > 0 {
		lab.CompareRows(r.Pages, r.Pages[0].Name)
	}
	r.Targets = []lab.Verdict{
		more("what the door adds to an exec, median", r.Exec, targetExec),
		more("what the door adds to a create, median", r.Create, targetCreate),
		lab.AtMost("create, first command and end, median", "times Docker's", lab.Find(r.Life, rowUnix).Of[rowDocker], targetDocker, nil),
		lab.AtMost(fmt.Sprintf("the daemon's memory for %d idle sandboxes", r.Memory.Idle), "MiB", float64(r.Memory.IdleKiB-r.Memory.EmptyKiB)/1024, targetMemory*float64(r.Memory.Idle)/1000, nil),
		lab.AtMost("claim of a child to its first output, median", "times in process", lab.Find(r.Claim, rowUnix).Of[rowEngine], targetClaim, nil),
		r.judgePages(),
		lab.AtMost("a command by aether mcp, median", "times the Go client's", lab.Find(r.Exec, rowMCP).Of[rowUnix], targetMCP, nil),
		lab.AtMost("mark, command and roll back, median", "times a fork", lab.Find(r.Undo, rowUndo).Of[rowFork], targetUndo, nil),
		lab.AtMost("a step of the agent's loop, without model and call, median", "us", lab.Find(r.Step, rowStep).MedianUS, targetStep, nil),
		lab.AtMost("create, command and end by E2B's requests, median", "times /v1's", lab.Find(r.E2B, rowE2BWire).Of[rowTCP], targetE2B, nil),
		lab.AtMost("a sum in a code context by E2B's requests, median", "times the Go client's", lab.Find(r.Code, rowE2BWire).Of[rowTCP], targetCode, nil),
	}
}

// more is the verdict on what a way takes more than in process.
func more(what string, rows []lab.Row, limit float64) lab.Verdict {
	with, without := lab.Find(rows, rowUnix), lab.Find(rows, rowEngine)
	if with.MedianUS == 0 || without.MedianUS == 0 {
		return lab.Undecided(what, "us", limit, "it was not measured")
	}
	return lab.AtMost(what, "us", with.MedianUS-without.MedianUS, limit, nil)
}

func (r *Report) judgePages() lab.Verdict {
	last := lab.Row{}
	if len(r.Pages) > 0 {
		last = r.Pages[len(r.Pages)-1]
	}
	return lab.AtMost("a page of "+last.Name+", median", "times that of fewer", last.Of[first(r.Pages)], targetPage, nil)
}

func first(rows []lab.Row) string {
	if len(rows) == 0 {
		return ""
	}
	return rows[0].Name
}

// Text draws the report for people.
func (r Report) Text() string {
	return strings.Join([]string{
		"A command in a living sandbox, ms\n" + lab.Times(r.Exec, rowEngine, rowUnix),
		"The making of a sandbox, ms\n" + lab.Times(r.Create, rowEngine),
		"Making, a command and the end of a sandbox, ms\n" + lab.Times(r.Life, rowEngine, rowDocker),
		"The claim of a child that is kept ready, to what its first command says, ms\n" + lab.Times(r.Claim, rowEngine),
		"A command that is taken back, ms\n" + lab.Times(r.Undo, rowFork),
		"A step of the agent's loop, ms\n" + lab.Times(r.Step),
		"Making, `bash -l -c true` and the end of a sandbox, by /v1 and by E2B's API, ms\n" + lab.Times(r.E2B, rowTCP),
		"A sum in a code context, ms\n" + lab.Times(r.Code, rowTCP),
		"A page of sandboxes, ms\n" + lab.Times(r.Pages, first(r.Pages)),
		fmt.Sprintf("The daemon's own memory: %.1f MiB empty, %.1f MiB with %d idle sandboxes\n", float64(r.Memory.EmptyKiB)/1024, float64(r.Memory.IdleKiB)/1024, r.Memory.Idle),
		"Targets for the daemon\n" + lab.Verdicts(r.Targets),
	}, "\n")
}
