package engine

import (
	"context"
	"slices"
	"strings"

	"aether/sandbox"
)

// layerCache is the layers as one preparation uses them.
type layerCache struct {
	layers *layers
	who    Caller
	driver sandbox.Driver
	images sandbox.ImageIdentifier
	recipe Recipe
	steps  []Step
	image  string   // the identity of the recipe's image
	keys   []string // of the files after each command

	// fresh is from which command on no layer is used: what those leave replaces them.
	fresh int
	// alone says that nothing more is kept or waited for: a sandbox that has more to it
	// than files, or no room for them, has no layers from there on.
	alone bool
	// reason is why what a command left could not be kept, of a sandbox that was then made
	// anew.
	reason string

	held   []*layer
	flight *flight // what this preparation makes; nil if nothing
}

// cacheFor gives the layers of a recipe, or nil where there are none: the driver does not
// keep files, the image may change unnoticed, or commands see what is mounted, which is
// not in the key, and may have changed it. Errors: those of Create for the image.
func (l *layers) cacheFor(ctx context.Context, who Caller, driver sandbox.Driver, recipe Recipe) (*layerCache, error) {
	images, ok := driver.(sandbox.ImageIdentifier)
	if !ok || len(recipe.steps()) == 0 || len(recipe.Spec.Mounts) > 0 || !l.keepsFiles(driver) {
		return nil, nil
	}
	image, err := images.ImageIdentity(ctx, recipe.Spec.Image)
	if err != nil || image == "" {
		return nil, err
	}
	keys := layerKeys(who.Tenant, driver.Info().Name, image, recipe.Spec, recipe.Run, recipe.Steps...)
	return &layerCache{layers: l, who: who, driver: driver, images: images, recipe: recipe, steps: recipe.steps(), image: image, keys: keys, fresh: len(keys)}, nil
}

// keepsFiles says whether a driver may be able to keep files and to give them back.
func (l *layers) keepsFiles(driver sandbox.Driver) bool {
	info := driver.Info()
	restorer, ok := driver.(sandbox.Restorer)
	l.mu.Lock()
	defer l.mu.Unlock()
	return ok && info.Verbs.Snapshot != "" && restorer.RestoreFidelity() != "" && !l.unable[info.Name]
}

// cannot notes that a driver keeps no files alone.
func (l *layers) cannot(driver string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unable[driver] = true
}

// bare says whether a sandbox in which steps are run, with so many of them done, has to do
// without the variables of the Spec, which no step has. Those that nothing is kept of have
// them all the same: they could not be given later.
func (c *layerCache) bare(done int) bool {
	return len(c.recipe.Spec.Command.Env) > 0 && c.recipe.stated() && !c.alone && done < len(c.steps)
}

// longest finds the layer with the most commands, or nil, and says how many those are.
func (c *layerCache) longest() (base *layer, commands int) {
	c.release()
	c.held, commands = c.layers.hold(c.keys[:c.fresh])
	if commands > 0 {
		base = c.held[len(c.held)-1]
	}
	return base, commands
}

// claim has this preparation be who makes the layer after a command, unless somebody else
// does: then that is given. Who made the layer before is not done until it has claimed the
// next, so that it goes on and nobody overtakes it.
func (c *layerCache) claim(command int) (other *flight) {
	if c.alone || command >= c.fresh {
		c.end(layerKept, nil)
		return nil
	}
	next, mine := c.layers.flights.begin(c.keys[command], c.steps[command].shown())
	c.end(layerKept, nil)
	if !mine {
		return next
	}
	c.flight = next
	return nil
}

// end says how what this preparation made has ended, if it made anything.
func (c *layerCache) end(how outcome, err error) {
	if c.flight != nil {
		c.layers.flights.end(c.flight, how, err)
		c.flight = nil
	}
}

// unkept goes on without layers.
func (c *layerCache) unkept() {
	c.end(layerUnkept, nil)
	c.alone = true
}

// below is the layer that the files after the last command were made over, or nil.
func (c *layerCache) below() *layer {
	if len(c.held) == 0 {
		return nil
	}
	return c.held[len(c.held)-1]
}

// keep keeps the files of a sandbox as they are after a command.
func (c *layerCache) keep(ctx context.Context, keeper sandbox.Snapshotter, command int) error {
	image, err := c.images.ImageIdentity(ctx, c.recipe.Spec.Image)
	if err != nil {
		return err
	}
	if image != c.image {
		return &sandbox.Error{Class: sandbox.Conflict, Reason: "the image has changed meanwhile"}
	}
	made, err := c.layers.keep(ctx, c.who, keeper, layerRecord{Tenant: c.who.Tenant, Driver: c.driver.Info().Name,
		Key: c.keys[command], Step: command + 1, Command: c.steps[command].shown()}, c.below())
	if err == nil {
		c.held = append(c.held, made)
	}
	return err
}

func (c *layerCache) release() {
	c.layers.release(c.held)
	c.held = nil
}

// close lets go of everything. What was being made, somebody else may make.
func (c *layerCache) close() {
	c.end(layerGivenUp, nil)
	c.release()
}

// left says what a sandbox has besides files, for which these cannot stand.
func (p *preparation) left(ctx context.Context, before population) (string, error) {
	now, err := p.population(ctx)
	if err != nil {
		return "", err
	}
	if now.count > before.count || slices.ContainsFunc(now.pids, func(pid string) bool { return !slices.Contains(before.pids, pid) }) {
		return "a process is left running", nil
	}
	shared, err := p.client.List(ctx, "/dev/shm", 1)
	switch {
	case sandbox.ClassOf(err) == sandbox.NotFound:
		return "", nil
	case err != nil:
		return "", err
	case len(shared) > 0:
		return "something is left in /dev/shm", nil
	}
	return "", nil
}

// population is what runs in a sandbox: how many processes, if its driver counts them, and
// else which.
type population struct {
	count int64
	pids  []string
}

func (p *preparation) population(ctx context.Context) (of population, err error) {
	stats, err := p.instance.Stats(ctx)
	if err != nil || stats.Processes != nil {
		if err == nil {
			of.count = *stats.Processes
		}
		return of, err
	}
	entries, err := p.client.List(ctx, "/proc", 1)
	for _, entry := range entries {
		if name := entry.GetName(); strings.Trim(name, "0123456789") == "" {
			of.pids = append(of.pids, name)
		}
	}
	return of, err
}
