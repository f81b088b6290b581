package engine

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"aether/sandbox"
)

// templateRef is how a template is asked for: NAME for the latest version, NAME:TAG or
// NAME@VERSION.
type templateRef struct {
	name, tag string
	version   int
}

// parseRef reads one. Errors: Invalid for the field template.
func parseRef(text string) (templateRef, error) {
	wrong := sandbox.Invalidf("template", "%.80q is not of the form NAME, NAME:TAG or NAME@VERSION", text)
	if name, number, ok := strings.Cut(text, "@"); ok {
		version, err := strconv.Atoi(number)
		if err != nil || version < 1 || strconv.Itoa(version) != number || ValidName(name) != nil {
			return templateRef{}, wrong
		}
		return templateRef{name: name, version: version}, nil
	}
	name, tag, tagged := strings.Cut(text, ":")
	if ValidName(name) != nil || tagged && !isTag(tag) {
		return templateRef{}, wrong
	}
	return templateRef{name: name, tag: tag}, nil
}

// aTag is what a tag looks like.
var aTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`) })

func isTag(text string) bool { return aTag().MatchString(text) }

// whole says that the name alone is given, which is all versions to those who remove.
func (r templateRef) whole() bool { return r.tag == "" && r.version == 0 }

// versionName is how a version is written where it is meant and no other.
func versionName(name string, number int) string { return fmt.Sprintf("%s@%d", name, number) }

func noTemplate(text string) error {
	return &sandbox.Error{Class: sandbox.NotFound, Op: "template " + clip(text, 80), Field: "template", Reason: "there is none of this name", Remedy: "see aether template list"}
}
