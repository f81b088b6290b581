package list

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// environment is variables as os.Environ gives them.
type environment []string

// get gives the last value of a name, as the tools see it.
func (e environment) get(name string) string {
	for _, one := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(one, name+"="); ok {
			return value
		}
	}
	return ""
}

// either gives the value of a name in lower case, or else in upper case.
func (e environment) either(name string) string {
	if value := e.get(strings.ToLower(name)); value != "" {
		return value
	}
	return e.get(strings.ToUpper(name))
}

// with gives the environment with variables set, or removed where they have no equals
// sign.
func (e environment) with(changes ...string) environment {
	out := slices.DeleteFunc(slices.Clone(e), func(one string) bool {
		name, _, _ := strings.Cut(one, "=")
		return slices.ContainsFunc(changes, func(c string) bool {
			changed, _, _ := strings.Cut(c, "=")
			return name == changed
		})
	})
	for _, c := range changes {
		if strings.Contains(c, "=") {
			out = append(out, c)
		}
	}
	return out
}

// named gives the variables whose name begins so, without that beginning.
func (e environment) named(prefix string) map[string]string {
	found := map[string]string{}
	for _, one := range e {
		name, value, _ := strings.Cut(one, "=")
		if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			found[name[len(prefix):]] = value
		}
	}
	return found
}

var (
	matters = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^(pip|npm_config|go[a-z]*|cargo|[a-z]*_proxy|apt_config|home|path|netrc|xdg_config)[_=]`)
	})
	isSecret  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^[^=]*(token|password|passwd|secret|auth)`) })
	inURLUser = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`//[^/@\s]*@`) })
)

// fingerprint tells environments apart that would have tools answer differently. What
// may be secret has no part in it.
func (e environment) fingerprint() string {
	var kept []string
	for _, one := range e {
		if matters().MatchString(one) && !isSecret().MatchString(one) {
			kept = append(kept, inURLUser().ReplaceAllString(one, "//"))
		}
	}
	slices.Sort(kept)
	sum := sha256.Sum256([]byte(strings.Join(kept, "\x00")))
	return hex.EncodeToString(sum[:8])
}
