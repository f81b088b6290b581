// Package proctree kills processes, their groups, and everything that a process has
// started where no cgroup keeps it together: by a mark in the environment, which programs
// inherit unless they mean to shed it. Hostile ones may; a cgroup they cannot.
package proctree
