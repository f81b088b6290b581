// Package mcp serves the tools of package tool by the Model Context Protocol, over streams
// and over HTTP, with the official library. What the tools are and do is not its business,
// nor who calls: whoever brings the session knows.
//
// Over HTTP there are no sessions of the protocol: every message stands for itself, which
// is what its newest revision asks for, and what clients of older ones put up with. State
// travels as the ids of sandboxes.
package mcp
