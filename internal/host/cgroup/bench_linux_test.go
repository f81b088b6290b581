package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkGroup prints what each step of a group's life costs.
func BenchmarkGroup(b *testing.B) {
	limits := Limits{Memory: 256 << 20, CPUs: 1, Pids: 100}
	steps := []struct {
		name string
		run  func(*testing.B, *Owner, []*Group)
	}{
		{"create", func(b *testing.B, o *Owner, _ []*Group) { fresh(b, o) }},
		{"set", func(b *testing.B, _ *Owner, groups []*Group) {
			each(b, groups, func(g *Group) error { return g.Set(limits) })
		}},
		{"open-attach", func(b *testing.B, _ *Owner, groups []*Group) {
			each(b, groups, func(g *Group) error { _, err := g.Attach(true); return err })
		}},
		{"sub", func(b *testing.B, _ *Owner, groups []*Group) {
			each(b, groups, func(g *Group) error { _, err := g.Sub("c"); return err })
		}},
		{"kill-empty", func(b *testing.B, _ *Owner, groups []*Group) {
			each(b, groups, func(g *Group) error { return g.Kill(context.Background()) })
		}},
		{"remove", func(b *testing.B, _ *Owner, groups []*Group) {
			each(b, groups, func(g *Group) error { return g.Remove(context.Background()) })
		}},
	}
	for _, step := range steps {
		b.Run(step.name, func(b *testing.B) {
			o := owner(b)
			var groups []*Group
			if step.name != "create" {
				groups = fresh(b, o)
			}
			b.ResetTimer()
			step.run(b, o, groups)
			b.StopTimer()
		})
	}
}

func fresh(b *testing.B, o *Owner) []*Group {
	groups := make([]*Group, b.N)
	for i := range groups {
		g, err := o.Create(strconv.Itoa(i))
		if err != nil {
			b.Fatal(err)
		}
		groups[i] = g
	}
	return groups
}

func each(b *testing.B, groups []*Group, do func(*Group) error) {
	for _, g := range groups {
		if err := do(g); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEnter compares the files by which a process enters each tree. The
// moves are some time apart, as those of real sandboxes are: a move soon after
// another profits from locks that the kernel has not yet let go of.
func BenchmarkEnter(b *testing.B) {
	o := owner(b)
	g := group(b, o, Limits{})
	for i, t := range o.host.trees {
		files := []string{"tasks", "cgroup.procs"}
		if t.unified {
			files = files[1:]
		}
		for _, file := range files {
			b.Run(t.holds.String()+" "+file, func(b *testing.B) { enter(b, t, g.nodes[i], file) })
		}
	}
}

// enter has a process of its own do the moves, so that this one stays.
func enter(b *testing.B, t tree, n node, file string) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self, strconv.Itoa(b.N))
	cmd.Env = append(os.Environ(), roleVariable+"=move")
	for _, place := range []node{n, {unix.AT_FDCWD, t.base}} {
		fd, err := place.open(file, unix.O_WRONLY)
		if err != nil {
			b.Fatal(err)
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), file))
	}
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	var median, worst float64
	if _, err := fmt.Sscan(string(out), &median, &worst); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(median, "median-us")
	b.ReportMetric(worst, "max-us")
}

// move goes into the group at descriptor 3 and back to that at 4, and prints the
// median and the longest time of the way in.
func move(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	times := make([]float64, n)
	for i := range times {
		time.Sleep(40 * time.Millisecond)
		start := time.Now()
		if _, err := unix.Write(3, zero); err != nil {
			return err
		}
		times[i] = float64(time.Since(start).Nanoseconds()) / 1000
		time.Sleep(40 * time.Millisecond)
		if _, err := unix.Write(4, zero); err != nil {
			return err
		}
	}
	slices.Sort(times)
	fmt.Println(times[n/2], times[n-1])
	return nil
}

// BenchmarkClone compares a plain start of a process with one into a group.
func BenchmarkClone(b *testing.B) {
	o := owner(b)
	a, err := group(b, o, Limits{}).Attach(true)
	if err != nil {
		b.Fatal(err)
	}
	for name, attr := range map[string]*syscall.SysProcAttr{
		"plain": {}, "into": {UseCgroupFD: a.Into >= 0, CgroupFD: a.Into},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command("/bin/true")
				cmd.SysProcAttr = attr
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
