// Package tokentest holds what agents are shown of tools to a number of tokens. It is a
// package of its own because a tokenizer's vocabulary takes long to build with a fuzzer.
package tokentest
