package network

import (
	"context"
	"errors"
	"slices"
	"time"

	"aether/network/list"
	"aether/network/policy"
	"aether/sandbox"
)

// Lists give policies what is on the lists of this host. Who asks for what somebody else
// is being asked for waits for that answer.
func Lists(host list.Host) policy.Lists {
	l := &lists{host: host, asking: make(chan struct{}, 1)}
	return l.rules
}

type lists struct {
	host   list.Host
	asking chan struct{} // one asks the tools, and the others read what was kept
	// known is the last answer that had credentials, which nobody writes anywhere. It is
	// read and written by who asks.
	known      list.List
	knownUntil time.Time
}

// knownFor is how long an answer with credentials holds, and brieflyKnown how long one that
// lacks something.
const (
	knownFor     = time.Hour
	brieflyKnown = time.Minute
)

func (l *lists) rules(ctx context.Context, name string) ([]policy.Rule, error) {
	one, err := l.list(ctx, name)
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(one)
	for _, included := range one.Includes {
		if included == sandbox.PublicList {
			rules = append(rules, policy.Rule{Public: true})
			continue
		}
		more, failed := l.rules(ctx, included)
		rules, err = append(rules, more...), errors.Join(err, failed)
	}
	return rules, err
}

func (l *lists) list(ctx context.Context, name string) (list.List, error) {
	if name != list.NamePackages {
		return l.host.List(ctx, name)
	}
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return list.List{}, ctx.Err()
	}
	return l.packages(ctx)
}

// packages is the list with the credentials that it has, for which the tools have to be
// asked: what is kept on disk says only that there are some.
func (l *lists) packages(ctx context.Context) (list.List, error) {
	if time.Now().Before(l.knownUntil) {
		return l.known, nil
	}
	one, err := l.host.List(ctx, list.NamePackages)
	if err != nil || !slices.ContainsFunc(one.Entries, func(e list.Entry) bool { return e.Sent }) {
		return one, err
	}
	if slices.ContainsFunc(one.Entries, func(e list.Entry) bool { return e.Sent && !e.Credential.Known() }) {
		host := l.host
		host.Refresh = true
		if one, err = host.List(ctx, list.NamePackages); err != nil {
			return one, err
		}
	}
	good := knownFor
	if one.Incomplete {
		good = brieflyKnown
	}
	l.known, l.knownUntil = one, time.Now().Add(good)
	return one, nil
}

// rulesOf are a list's entries, but for those that are withheld.
func rulesOf(l list.List) (rules []policy.Rule, err error) {
	for _, e := range slices.DeleteFunc(slices.Clone(l.Entries), func(e list.Entry) bool { return e.Withheld }) {
		reach, err := sandbox.ParseReach(e.Allow)
		if err != nil {
			return nil, err
		}
		rule := policy.Rule{Reach: reach, Private: e.Private, At: e.At}
		if e.Sent {
			rule.Authorization = policy.NewSecret(e.Credential.Header())
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
