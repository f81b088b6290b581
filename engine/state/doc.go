// Package state is what an engine remembers: records that are files, one for each
// sandbox, snapshot, template, volume and key, and journals of lines.
//
// A record is replaced by a rename, so that a program that is killed at any instant
// leaves the old one or the new one. Save also has it on disk before it returns;
// Note does not wait for the disk, for what a loss of power ends anyway. A record
// that cannot be read is set aside with the reason and stops nobody.
//
//	DIR/lock                 held by the one program that uses the directory
//	DIR/KIND/ID/record       a header line with format and checksum, then JSON
//	DIR/KIND/ID/...          what else belongs to it: see Home
//	DIR/damaged/KIND-ID-...  what could not be read, and why
//	DIR/removed/...          on its way out
//	DIR/JOURNAL.N            lines, oldest file first
package state
