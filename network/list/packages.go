package list

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

// DefaultTimeout is for tools on a host that does much else: one that is not waited for
// is missing from what a sandbox may reach.
const DefaultTimeout = 20 * time.Second

// Options say how tools are asked.
type Options struct {
	// Dir is a directory below which tools get empty ones to run in. Nobody else may be
	// able to write to it or above it: tools look for settings there.
	Dir string
	// Env is the environment of the tools; nil is that of this program.
	Env []string
	// Timeout bounds each question to a tool, an index or a name server; 0 is DefaultTimeout.
	Timeout time.Duration
	// Offline has no index asked what it points to.
	Offline bool
}

type tool struct {
	name string
	ask  func(context.Context, *asker) answer
}

// tools are those whose settings make up the list.
var tools = []tool{{"pip", askPip}, {"npm", askNpm}, {"go", askGo}, {"cargo", askCargo}, {"apt", askApt}}

// Packages asks the package managers of this host which hosts they would use, and those
// hosts which others they point to. Tools that are missing, and hosts that do not
// answer, are in the list's words. Errors: Denied for a Dir that others can write to.
func Packages(ctx context.Context, o Options) (List, error) { return collect(ctx, o, tools) }

func collect(ctx context.Context, o Options, tools []tool) (l List, err error) {
	a, release, err := newAsker(ctx, o)
	if err != nil {
		return List{}, fmt.Errorf("list: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	names, err := newResolver()
	if err != nil {
		return List{}, err
	}
	c := &collection{tools: tools, timeout: a.timeout, names: names, list: List{Name: NamePackages,
		Source: "what pip, npm, go, cargo and apt of this host use, and what their indexes point to", Entries: []Entry{}}}
	c.hear(askAll(ctx, a, tools))
	if !o.Offline {
		c.point(ctx)
	} else if len(c.sites) > 0 {
		c.unsaid("no index was asked what it points to")
	}
	c.enter(ctx)
	c.list.sort()
	return c.list, ctx.Err()
}

func newAsker(ctx context.Context, o Options) (a *asker, release func() error, err error) {
	if err := storedir.Prepare(o.Dir); err != nil {
		return nil, nil, err
	}
	if _, err := storedir.ReapScratch(o.Dir); err != nil {
		return nil, nil, err
	}
	dir, release, err := storedir.Scratch(ctx, o.Dir)
	if err != nil {
		return nil, nil, err
	}
	a = &asker{env: o.Env, scratch: dir, timeout: o.Timeout}
	if a.env == nil {
		a.env = os.Environ()
	}
	if a.timeout == 0 {
		a.timeout = DefaultTimeout
	}
	return a, release, nil
}

func askAll(ctx context.Context, a *asker, tools []tool) []answer {
	answers := make([]answer, len(tools))
	var names []string
	for _, t := range tools {
		names = append(names, t.name)
	}
	left := waitFor(ctx, names)
	var all sync.WaitGroup
	for i, t := range tools {
		all.Go(func() {
			answers[i] = t.ask(ctx, a)
			left.answered(t.name)
		})
	}
	all.Wait()
	return answers
}

// collection becomes the list.
type collection struct {
	tools   []tool
	list    List
	timeout time.Duration
	names   *resolver
	sites   []site
	visits  []*visit
}

func (c *collection) unsaid(text string) {
	c.list.note(text)
	c.list.Incomplete = true
}

// hear takes what tools said. The proxies that they would go through are sites too.
func (c *collection) hear(answers []answer) {
	for i, a := range answers {
		if a.skipped != "" {
			c.list.Skipped = append(c.list.Skipped, c.tools[i].name+": "+a.skipped)
		}
		for _, text := range a.notes {
			c.list.note(c.tools[i].name + ": " + text)
		}
		for _, text := range a.unsaid {
			c.unsaid(c.tools[i].name + ": " + text)
		}
		for _, s := range a.sites {
			c.sites = append(c.sites, s)
			if via, ok := s.proxies.of(s.url); ok {
				c.sites = append(c.sites, site{url: via.url, from: via.from, credential: via.credential, proxy: true})
			}
		}
	}
}

// point asks every site what it points to.
func (c *collection) point(ctx context.Context) {
	named := map[string]bool{}
	for _, s := range c.sites {
		if t, err := targetOf(s.url); err == nil {
			named[t.String()] = true
		}
	}
	var hosts []string
	for _, s := range c.sites {
		if s.point != nil {
			hosts = append(hosts, s.url.Host)
		}
	}
	left := waitFor(ctx, hosts)
	var all sync.WaitGroup
	errs := make([]error, len(c.sites))
	for i, s := range c.sites {
		if s.point == nil {
			continue
		}
		v := newVisit(s, named, c.timeout)
		c.visits = append(c.visits, v)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, c.timeout)
			defer cancel()
			errs[i] = s.point(ctx, v)
			left.answered(s.url.Host)
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			c.unsaid(fmt.Sprintf("%s: what %s points to could not be asked: %v", c.sites[i].from, c.sites[i].url.Host, err))
		}
	}
}

// enter makes the entries. Settings of this host may name what is private; what an index
// points to, which somebody else has written, may be private only where they lead anyway.
func (c *collection) enter(ctx context.Context) {
	found := make([]Entry, 0, len(c.sites))
	for _, s := range c.sites {
		if t, err := targetOf(s.url); err != nil {
			c.list.note(fmt.Sprintf("%s: %v", s.from, err))
		} else {
			found = append(found, Entry{Allow: t.String(), From: s.from, Credential: s.credential, Sent: s.sent()})
		}
	}
	led := map[netip.AddrPort]bool{}
	c.resolve(ctx, found, func(e *Entry, r sandbox.Reach, private []netip.Addr) {
		e.Private = true
		for _, a := range private {
			led[netip.AddrPortFrom(a, r.First)] = true
		}
	})
	for _, e := range found {
		c.list.add(e)
	}
	named := len(c.list.Entries)
	for _, v := range c.visits {
		c.enterPointed(v)
	}
	c.resolve(ctx, c.list.Entries[named:], func(e *Entry, r sandbox.Reach, private []netip.Addr) {
		if r.Name != "" {
			e.At = slices.DeleteFunc(private, func(a netip.Addr) bool { return !led[netip.AddrPortFrom(a, r.First)] })
		}
		if len(e.At) == 0 {
			e.Withheld = true
			c.list.note(e.Allow + " is private, and stays out of reach: an index points to it, and no setting of this host leads there")
		}
	})
}

func (c *collection) enterPointed(v *visit) {
	var seen []string
	for _, u := range v.pointed {
		t, err := targetOf(u)
		if err != nil || slices.Contains(seen, t.String()) {
			continue
		}
		if len(seen) == maxPointed {
			c.list.note(fmt.Sprintf("%s points to over %d hosts: the rest is left out", v.site.url.Host, maxPointed))
			return
		}
		seen = append(seen, t.String())
		if c.knows(t.String()) {
			continue
		}
		c.list.add(Entry{Allow: t.String(), From: v.site.from + ": " + v.site.url.Host + " points to it"})
	}
}

// knows says whether a setting has named it, whose words are enough.
func (c *collection) knows(allow string) bool {
	return slices.ContainsFunc(c.sites, func(s site) bool {
		t, err := targetOf(s.url)
		return err == nil && t.String() == allow
	})
}

// resolve tells which entries are private, one at a time.
func (c *collection) resolve(ctx context.Context, entries []Entry, private func(*Entry, sandbox.Reach, []netip.Addr)) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var (
		all sync.WaitGroup
		mu  sync.Mutex
	)
	for i := range entries {
		r, err := sandbox.ParseReach(entries[i].Allow)
		if err != nil {
			continue // it was made of one
		}
		all.Go(func() {
			addrs, err := c.names.private(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.unsaid(r.Name + " could not be resolved")
			} else if len(addrs) > 0 {
				private(&entries[i], r, addrs)
			}
		})
	}
	all.Wait()
}
