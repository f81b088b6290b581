package main

import "strings"

// remedyOptions are the options that a refusal names: what follows "docker run" up
// to the dots, or the end of the parenthesis, that stand for the rest.
func remedyOptions(refusal string) (options []string) {
	_, text, _ := strings.Cut(refusal, "docker run ")
	text, _, _ = strings.Cut(text, "...")
	text, _, _ = strings.Cut(text, ")")
	for _, word := range strings.Fields(text) {
		options = append(options, strings.Trim(word, ",;"))
	}
	return options
}
