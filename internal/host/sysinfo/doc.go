// Package sysinfo is what the kernel says of the host as a whole: how much memory
// it has and which release it is. What it lets a user do is package features'.
package sysinfo
