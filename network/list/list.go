package list

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"aether/sandbox"
)

// The lists that are not files of an operator.
const (
	// NamePackages is what the package managers of this host use.
	NamePackages = "packages"
	// NamePublic is every public address. The policy evaluates it: as a list it is empty.
	NamePublic = sandbox.PublicList
)

// DefaultPath is where the lists of an operator are looked for.
const DefaultPath = "/etc/aether/lists"

const maxEntries = 10_000

// List is a name for what may be reached.
type List struct {
	Name string `json:"name"`
	// Source says where the list comes from, as a sentence without its full stop.
	Source string `json:"source"`
	// Includes are lists that belong to it and that somebody else evaluates.
	Includes []string `json:"includes,omitempty"`
	Entries  []Entry  `json:"entries"`
	// Skipped says for each tool that has contributed nothing why that is so.
	Skipped []string `json:"skipped,omitempty"`
	// Notes are what a reader should know about the entries.
	Notes []string `json:"notes,omitempty"`
	// Incomplete says that the same question may have a longer answer soon: a tool or
	// an index did not answer.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Entry is one thing that may be reached.
type Entry struct {
	// Allow is what a sandbox.Reach is written as.
	Allow string `json:"allow"`
	// Private says that it is an address that is not public or that is this host's own,
	// or a name that leads to one, and may be reached nevertheless.
	Private bool `json:"private,omitempty"`
	// Withheld says that it is such a one and may not: only an index names it. At are the
	// addresses where such a name may be reached: this host's settings lead there as well.
	Withheld bool         `json:"withheld,omitempty"`
	At       []netip.Addr `json:"at,omitempty"`
	// From says which tool and setting, or which line of which file, named it.
	From string `json:"from"`
	// Credential is what was found with it, or nil.
	Credential *Credential `json:"credential,omitempty"`
	// Sent says that requests which read from it are given the credential on their way out:
	// it is a name that is spoken to by HTTPS.
	Sent bool `json:"sent,omitempty"`
}

func isReserved(name string) bool { return name == NamePackages || name == NamePublic }

// Public is the list of that name, for those who show lists.
func Public() List {
	return List{Name: NamePublic, Source: "every public address, on every port", Entries: []Entry{}}
}

// add appends an entry, or joins it to the one that allows the same.
func (l *List) add(e Entry) {
	at := slices.IndexFunc(l.Entries, func(old Entry) bool { return old.Allow == e.Allow })
	if at < 0 {
		l.Entries = append(l.Entries, e)
		return
	}
	old := &l.Entries[at]
	old.Private = old.Private || e.Private
	if !slices.Contains(strings.Split(old.From, ", "), e.From) {
		old.From += ", " + e.From
	}
	switch {
	case old.Credential == nil:
		old.Credential, old.Sent = e.Credential, e.Sent
	case e.Credential != nil && !old.Credential.equal(e.Credential):
		l.note("two credentials were found for " + e.Allow + ": the first is kept")
	}
}

func (l *List) note(text string) {
	if !slices.Contains(l.Notes, text) {
		l.Notes = append(l.Notes, text)
	}
}

// sort makes the same answers be the same list.
func (l *List) sort() {
	slices.SortStableFunc(l.Entries, func(a, b Entry) int { return cmp.Compare(a.Allow, b.Allow) })
	slices.Sort(l.Skipped)
	slices.Sort(l.Notes)
}

// check refuses entries that cannot be, as those of a damaged file are.
func (l *List) check() error {
	if !sandbox.IsListName(l.Name) {
		return sandbox.Invalidf("name", "%.80q cannot name a list", l.Name)
	}
	if len(l.Entries) > maxEntries {
		return sandbox.Invalidf("entries", "there are over %d", maxEntries)
	}
	for _, e := range l.Entries {
		if err := e.check(); err != nil {
			return &sandbox.Error{Class: sandbox.Invalid, Field: "entries", Err: err}
		}
	}
	return nil
}

func (e Entry) check() error {
	r, err := sandbox.ParseReach(e.Allow)
	switch {
	case err != nil:
		return err
	case r.List != "":
		return fmt.Errorf("%.80q is a list on a list", e.Allow)
	case r.Prefix.IsValid() && !sandbox.IsPublicPrefix(r.Prefix) && !e.Private && !e.Withheld:
		return fmt.Errorf("%.80q is not public, and nothing is said about that", e.Allow)
	}
	return nil
}

// printable is a word of somebody else's settings as it may stand in a sentence of ours.
func printable(text string) string {
	if len(text) > 200 {
		text = text[:200]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}
