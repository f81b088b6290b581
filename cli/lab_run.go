package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"aether/internal/host/storedir"
	"aether/lab"
	labreport "aether/lab/report"
	labrun "aether/lab/run"
	"aether/lab/survey"
	"aether/profile"
	"aether/sandbox"
)

// labRunOptions are the flags as they were given.
type labRunOptions struct {
	systems, axes, out string
	quick              bool
}

func labRunCommand(drivers *drivers) *cobra.Command {
	var o labRunOptions
	cmd := &cobra.Command{
		Use: "run", Short: "Measure systems on the five axes",
		Long: "Measure systems: how long a sandbox takes to the first byte of its first command, what idle ones cost the host, what is\n" +
			"kept when a running one is copied, and what agents can do with them. Systems take turns, so that whatever else the\n" +
			"host does falls on all alike. A run that was stopped goes on with the same --out; what a system cannot do, or this\n" +
			"host has not, is absent with its reason. Without --quick it takes some twenty minutes; with it, less than three.",
		Example: "  aether lab run --quick\n  aether lab run --systems cell,docker --axes start-latency,density --out ./run\n  aether lab run --out ./run     # goes on",
		Args:    noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.systems, "systems", "", "measure these `SYSTEMS`, separated by commas (default: all of this build)")
	flags.StringVar(&o.axes, "axes", "", "measure these `AXES`, separated by commas (default: all)")
	flags.BoolVar(&o.quick, "quick", false, "a first picture in less than three minutes")
	flags.StringVar(&o.out, "out", "", "keep the run in this `DIR`, or go on with the one there")
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		result, dir, err := o.measure(ctx, drivers, lab.NewProgress(progressOf(cmd, *json)))
		if ctx.Err() != nil {
			return errors.Join(&sandbox.Error{Class: sandbox.Conflict, Op: "lab", Reason: "the run was stopped", Remedy: "aether lab run --out " + dir + " goes on"}, notStopped(err))
		}
		if err != nil {
			return err
		}
		if *json {
			return printJSON(cmd, result)
		}
		s := screenOf(cmd.OutOrStdout())
		return printText(cmd, labText(result, s)+"\n\n"+paragraph("The run is in "+dir+": "+labrun.SummaryFile+", "+labrun.FiguresFile+", "+labrun.RecordsFile+", and "+labreport.File+" to look at.", "", s.prose()))
	}
	return cmd
}

// notStopped leaves out what is only the stop itself.
func notStopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// measure makes a run, or goes on with one.
func (o labRunOptions) measure(ctx context.Context, drivers *drivers, progress *lab.Progress) (_ labrun.Run, dir string, err error) {
	header, err := o.header(drivers)
	if err != nil {
		return labrun.Run{}, "", err
	}
	dir = o.out
	if dir == "" {
		dir = filepath.Join(labHome(), header.ID)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return labrun.Run{}, dir, err
	}
	lock, err := storedir.Try(filepath.Join(dir, "lock"))
	if errors.Is(err, storedir.ErrHeld) {
		return labrun.Run{}, dir, &sandbox.Error{Class: sandbox.Conflict, Field: "--out", Reason: "another program measures into " + dir, Remedy: "wait for it, or choose another directory"}
	}
	if err != nil {
		return labrun.Run{}, dir, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	store, err := o.open(dir, header)
	if err != nil {
		return labrun.Run{}, dir, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var systems []lab.System
	for _, m := range drivers.makers {
		if !slices.Contains(store.Header().Systems, m.Name) {
			continue
		}
		driver, err := drivers.Named(m.Name)
		if err != nil {
			return labrun.Run{}, dir, err
		}
		systems = append(systems, lab.System{Name: m.Name, Driver: driver, New: m.New})
	}
	result, err := survey.Measure(ctx, systems, store, survey.Options{Progress: progress})
	return result, dir, errors.Join(err, reapAll(ctx, systems), labreport.Write(dir))
}

// reapAll removes what the run's snapshots have left in the stores of drivers, which are
// gigabytes. A run that was stopped does so too.
func reapAll(ctx context.Context, systems []lab.System) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, s := range systems {
		if r, ok := s.Driver.(sandbox.Reaper); ok {
			if _, failed := r.Reap(ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("remove what %s has left: %w", s.Name, failed))
			}
		}
	}
	return err
}

// header is what a new run is asked for.
func (o labRunOptions) header(drivers *drivers) (h labrun.Header, err error) {
	h = labrun.Header{Schema: labrun.Schema, ID: time.Now().UTC().Format("20060102-150405"), Program: readBuild().String(), Quick: o.quick}
	if h.Systems, err = o.namedSystems(drivers); err != nil {
		return h, err
	}
	if h.Axes, err = o.namedAxes(); err != nil {
		return h, err
	}
	h.Host, err = lab.ReadHost()
	return h, err
}

func (o labRunOptions) namedSystems(drivers *drivers) ([]string, error) {
	if o.systems == "" {
		return drivers.Names(), nil
	}
	var list []string
	for _, name := range splitList(o.systems) {
		canonical, err := drivers.canonical(name)
		if err != nil {
			return nil, unknownName("--systems", name, drivers.Names())
		}
		list = append(list, canonical)
	}
	return list, nil
}

func (o labRunOptions) namedAxes() (list []string, err error) {
	asked := profile.Axes()
	if o.axes != "" {
		asked = nil
		for _, name := range splitList(o.axes) {
			axis, err := profile.ParseAxis(name)
			if err != nil {
				return nil, err
			}
			asked = append(asked, axis)
		}
	}
	for _, axis := range asked {
		list = append(list, axis.String())
	}
	return list, nil
}

// open begins a run, or goes on with one that was asked for the same.
func (o labRunOptions) open(dir string, h labrun.Header) (*labrun.Store, error) {
	if _, err := os.Stat(filepath.Join(dir, labrun.RecordsFile)); err != nil {
		return labrun.Create(dir, h)
	}
	there, err := labrun.Load(dir)
	if err != nil {
		return nil, err
	}
	if there.Complete {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Field: "--out", Reason: "the run in " + dir + " is complete", Remedy: "show it with: aether lab show " + dir}
	}
	for field, differs := range map[string]bool{
		"--systems": o.systems != "" && !slices.Equal(h.Systems, there.Systems), "--axes": o.axes != "" && !slices.Equal(h.Axes, there.Axes),
		"--quick": o.quick && !there.Quick,
	} {
		if differs {
			return nil, sandbox.Invalidf(field, "the run in %s was begun with another; leave it out to go on", dir)
		}
	}
	if there.Host.Kernel != h.Host.Kernel || there.Host.CPU != h.Host.CPU {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Field: "--out", Reason: fmt.Sprintf("the run in %s was begun on another host or kernel (%s)", dir, there.Host.Kernel), Remedy: "choose another directory"}
	}
	return labrun.Resume(dir)
}
