// Package statedir says where this user's files of Aether are: those that last and
// those that end with this boot of the host. It makes nothing there.
package statedir
