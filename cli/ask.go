package cli

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"aether/sandbox"
)

// askMode is the --net of run that says afterwards what the network denied.
const askMode = "ask"

// tellTime is how long a network may take to tell what it has decided.
const tellTime = 10 * time.Second

// denial is something that the network denied, as often as it did.
type denial struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
	// Allow is the entry that would allow it, or "" where none would, for the Reason.
	Allow  string `json:"allow,omitempty"`
	Reason string `json:"reason"`
}

// asked says what the network of a sandbox denied, once each, and how much is not known.
func (s *session) asked() (list []denial, missed int64, err error) {
	if !s.ask {
		return nil, 0, nil
	}
	ctx, cancel := context.WithTimeout(s.cmd.Context(), tellTime)
	defer cancel()
	decisions, missed, err := s.instance.(sandbox.NetworkLog).NetworkDecisions(ctx)
	return denials(decisions), missed, err
}

// canAsk refuses a sandbox that cannot say what was denied.
func (s *session) canAsk() error {
	if _, ok := s.instance.(sandbox.NetworkLog); s.ask && !ok {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "--net", Reason: s.driver.Info().Name + " does not remember what its network denied", Remedy: "use --driver cell, or --net egress"}
	}
	return nil
}

func denials(decisions []sandbox.NetworkDecision) (list []denial) {
	for _, d := range decisions {
		if d.Verdict != sandbox.VerdictDenied {
			continue
		}
		one := denialOf(d)
		same := func(old denial) bool {
			return old.What == one.What && old.Allow == one.Allow && old.Reason == one.Reason
		}
		if at := slices.IndexFunc(list, same); at >= 0 {
			list[at].Count += one.Count
			continue
		}
		list = append(list, one)
	}
	return list
}

// ownRange has the addresses that mean something only inside of a sandbox.
var ownRange = netip.MustParsePrefix("198.18.0.0/15")

// quicPort is where no datagram is passed on, whatever is allowed.
const quicPort = 443

// denialOf finds the entry that would have allowed what was denied.
func denialOf(d sandbox.NetworkDecision) denial {
	to := reachOf(d)
	one := denial{What: whatText(d), Count: d.Count, Reason: d.Reason}
	switch {
	case d.Reason == sandbox.ReasonRule:
		one.Reason += ": " + d.Rule
	case d.Kind == "udp" && d.Port == quicPort:
		one.Reason = "datagrams to this port are never passed on: programs use TCP instead"
	case d.Kind == "dns" && d.Name != "":
		one.Allow = to.String()
	case d.Kind != "tcp" && d.Kind != "udp" || d.Name == "" && ownRange.Contains(d.Address):
	case d.Name != "" && d.Rule != "": // the name is allowed, and not at that address
		to.Name, to.Prefix = "", netip.PrefixFrom(d.Address, d.Address.BitLen())
		one.Allow = to.String()
	default:
		one.Allow = to.String()
	}
	return one
}

// tellDenied prints what was denied, and the flags that would allow it.
func (s *session) tellDenied(list []denial, missed int64) {
	if !s.ask {
		return
	}
	if len(list) == 0 {
		printError(s.cmd, "aether: the network denied nothing")
	} else {
		printError(s.cmd, "%s", deniedText(list))
	}
	if missed > 0 {
		printError(s.cmd, "aether: %d decisions about the network are not known any more", missed)
	}
}

func deniedText(list []denial) string {
	lines, flags := []string{"aether: the network denied:"}, []string{}
	for _, d := range list {
		line := fmt.Sprintf("%6d× %s: %s", d.Count, visible(d.What), visible(d.Reason))
		lines = append(lines, line)
		if flag := "--allow " + shellWord(d.Allow); d.Allow != "" && !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	if len(flags) > 0 {
		lines = append(lines, "aether: this would allow it: "+strings.Join(flags, " "))
	}
	return strings.Join(lines, "\n")
}

// shellWord is an entry as a shell takes it: brackets are patterns to it.
func shellWord(entry string) string {
	if strings.ContainsAny(entry, "[]*") {
		return "'" + entry + "'"
	}
	return entry
}
