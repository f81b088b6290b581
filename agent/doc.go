// Package agent is a loop over the tool calls of a model in a sandbox of its own. It asks a
// model, makes the calls that a policy allows, answers them, and writes down what happened.
// What tools do is package tool's business, and how sandboxes work the engine's.
//
// # Lines
//
// A run is a tree of lines. Each has a sandbox and a conversation. At a step a line can be
// forked: the sandbox with its living processes, and the conversation with it. The forks go on
// side by side, a command scores them, the best is kept and the others end.
//
// A model knows the sandbox of its line as "here", in every line: what was said before a
// fork is true in each of them after it.
//
// # The transcript
//
// Everything that a run did is a line of JSON. A Replay answers as the model did then, so that
// a run can be repeated without one. Values that are named as secrets are not in it.
package agent
