package scale

import "aether/lab"

// Report is everything that a run found out.
type Report struct {
	lab.Circumstances
	// HostNetwork says that the sandboxes had no net namespaces of their own.
	HostNetwork bool    `json:"host_network,omitempty"`
	Levels      []Level `json:"levels"`
	// Ending is how long it took to end the sandboxes of the highest level.
	Ending  *Ending       `json:"ending,omitempty"`
	Targets []lab.Verdict `json:"targets"`
}

// Level is what was found with so many others alive.
type Level struct {
	Alive int `json:"alive"`
	// Skipped is why there are no figures.
	Skipped string `json:"skipped,omitempty"`
	// MakeUS is how long each of those that were added took.
	MakeUS float64 `json:"make_us,omitempty"`
	// Life is a sandbox's making, its first command and its end, which are its parts.
	Life lab.Row `json:"life"`
	// Exec is a command in one of the living, and Fork the copying of one.
	Exec lab.Row `json:"exec"`
	Fork lab.Row `json:"fork"`
	// Each is what each of the living holds; absent where it is not known.
	Each *Each `json:"each,omitempty"`
}

// The parts of a life.
const (
	lapCreate  = "create"
	lapCommand = "command"
	lapEnd     = "end"
)

// Each is what one idle sandbox holds of the host and of this program.
type Each struct {
	HostKiB     float64 `json:"host_kib"`
	ProgramKiB  float64 `json:"program_kib"`
	Descriptors float64 `json:"descriptors"`
	Goroutines  float64 `json:"goroutines"`
	// HostBusy is the share of the host's processors that is used while all of them do
	// nothing, by whomever.
	HostBusy float64 `json:"host_busy"`
}

// Ending is the end of many at once.
type Ending struct {
	Sandboxes int     `json:"sandboxes"`
	Workers   int     `json:"workers"`
	EachUS    float64 `json:"each_us"`
}

// level finds the figures of a number of living sandboxes, which are empty if there
// are none.
func (r Report) level(alive int) Level {
	for _, l := range r.Levels {
		if l.Alive == alive {
			return l
		}
	}
	return Level{}
}
