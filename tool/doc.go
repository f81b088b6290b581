// Package tool is the one registry of what agents can do with sandboxes: typed tools over
// the engine, and their projections into the formats of MCP and of the providers of
// models. It decides nothing about sandboxes; whom an engine obeys, and how a message
// travels, is the business of whoever brings the Backend and the transport.
//
// # A tool
//
// A tool is a Go function of one struct. Its input and output schemas are inferred from
// the types, so that neither can say what the other does not. Each says whether it reads,
// writes or destroys. Arguments are the words of a model: they are checked against the
// schema, unknown ones are refused, and everything is bounded.
//
// # Answers
//
// An answer is structured. A failure has a class, whether the same call may succeed later,
// and what to do next, where possible as another call. Output is cut where it is long:
// truncated says so, and command_output and file_read give the rest.
//
// # Lifetimes
//
// Sandboxes that were made without keep end with the Session that owns them, or after an
// idle time that each call renews.
package tool
