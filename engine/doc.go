// Package engine holds sandboxes over any driver: those of tenants, which it
// remembers, and what is kept ready, as templates that are prepared once and forked,
// pools of children that are forked ahead, and the tree of who was forked from whom.
// How a sandbox is made or forked is a driver's business, and who may ask for one is
// that of the front doors.
//
// # Sandboxes of tenants
//
// An engine that was opened with a state directory makes sandboxes with the driver that
// is named or the best that holds what is needed, under ids of its own. An id stays
// through pauses, restarts and roll backs, whichever instance serves it. What is a tenant's does not
// exist for another. Pause is durable: a checkpoint in the state directory, then nothing
// that runs. When the time of a sandbox is over, it is ended or paused.
//
// A Snapshot is a sandbox as it was at one moment, on disk until it is deleted, of which
// any number of sandboxes are made. A Mark is the same in memory: a fork that is frozen,
// of which a sandbox has a few. A sandbox that is rolled back to one of them keeps its id;
// its new instance lives before the old one ends.
//
// State is files (package state). The record of a running sandbox is renamed into place
// and not synced, for a loss of power ends it anyway; that of a paused one, and the answer
// to an idempotency key, are on disk before the call returns. Each record carries the
// events of its last change, so that the next engine tells those which this one was
// killed before telling.
//
// Close pauses the sandboxes that were made to outlive the engine (Keep), and the next
// engine resumes them: in the background, and at once if somebody uses one. The others
// have ended as sandbox.Stopped. After a kill, what ran has ended as sandbox.Lost.
//
// # Templates
//
// A Recipe says what a template is: an image, commands to run, a process to leave
// running (a command, or an interpreter with code that it has run), and when it is
// ready. Prepare does all of that once. The template is then frozen, where its
// driver can, and nobody reaches it any more: only forks leave it. Where a driver
// forks only what runs, the template is let go for the length of a fork.
//
// In an engine that was opened with a state directory, a template belongs to a tenant, has
// versions and tags, and is there again after a restart: from its memory, if Close could
// keep that, or else prepared anew. What is made of it by Create is a sandbox of the
// tenant's. Such a version is not reached by Prepare, Remove, Template and Templates, which
// are for programs that hold templates in memory.
//
// What each command of such a recipe left in files is kept as a layer, by a key of all that
// it comes of. The tenant's next preparation that begins alike restores the longest row of
// commands that there is, and runs the rest. Preparations at once make each layer once.
//
// # Children
//
// A child goes on from the very instruction at which its source was. Interpreters
// are told to draw new random numbers before anybody gets at the child: until then
// they would repeat those of their siblings. A child may be forked in turn, to any
// depth, and outlives what it was forked from.
//
// # Pools
//
// A Pool keeps children ready in the background, so that a claim is no more than
// taking one from a list. It belongs to one tenant. What was handed out never
// comes back: a child that somebody used is somebody's.
//
// # Lifetimes
//
// The contexts of calls bound the calls and nothing that they made. Close gives
// everything back: pools, children and templates.
package engine
