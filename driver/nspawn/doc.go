// Package nspawn drives systemd-nspawn without systemd: no machine is registered
// and no unit is made, so that it works on every host. It writes the command line;
// how the program is started, limited and ended is in driver/command.
package nspawn
