package network

import (
	"context"
	"errors"
	"slices"

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
}

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
	if name == list.NamePackages {
		select {
		case l.asking <- struct{}{}:
			defer func() { <-l.asking }()
		case <-ctx.Done():
			return list.List{}, ctx.Err()
		}
	}
	return l.host.List(ctx, name)
}

// rulesOf are a list's entries, but for those that are withheld.
func rulesOf(l list.List) (rules []policy.Rule, err error) {
	for _, e := range slices.DeleteFunc(slices.Clone(l.Entries), func(e list.Entry) bool { return e.Withheld }) {
		reach, err := sandbox.ParseReach(e.Allow)
		if err != nil {
			return nil, err
		}
		rules = append(rules, policy.Rule{Reach: reach, Private: e.Private, At: e.At})
	}
	return rules, nil
}
