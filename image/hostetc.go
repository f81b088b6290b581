package image

import (
	"path"
	"strings"
)

// etcAllowed is all that a sandbox sees of the host's /etc, as patterns. What
// often holds credentials (gitconfig, npmrc, pip.conf, profile, environment) is
// not in it, and neither is what says who the host's users are; see hostown.go
// for what sandboxes get instead.
var etcAllowed = []string{
	// The loader and the programs that a name stands for.
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
	// Names and numbers that are the same everywhere.
	"protocols", "services", "rpc", "ethertypes", "networks", "gai.conf", "host.conf", "mime.types", "magic", "magic.mime", "mailcap",
	// Time, place and terminal.
	"localtime", "timezone", "locale.conf", "locale.alias", "default/locale", "inputrc", "terminfo", "fonts",
	// What system this is.
	"os-release", "debian_version", "lsb-release", "redhat-release", "fedora-release", "alpine-release", "arch-release",
	// Certificates of authorities: public ones only.
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf",
	"pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust/extracted", "pki/java", "crypto-policies/back-ends", "crypto-policies/config",
	// Languages and tools that do not start without theirs.
	"python3*", "java*", ".java", "perl", "dotnet", "texmf", "maven/m2.conf", "maven/logging", "xml", "sgml",
	// Hardware interfaces in user space.
	"glvnd", "vulkan", "OpenCL",
}

// etcDenied are names that no directory of the list may bring along.
var etcDenied = []string{"*.key", "*.p12", "*.pfx", "*.keytab", "*.password", "*.access", "*.orig", "*.bak", "*~", "*-", ".pwd.lock", "private"}

func etcDenies(name string) bool {
	for _, pattern := range etcDenied {
		// The patterns are constants: a bad one fails the tests.
		if ok, err := path.Match(pattern, path.Base(name)); ok || err != nil {
			return true
		}
	}
	return false
}

// etcAllows says whether a path below /etc lies at or below a listed one.
func etcAllows(name string) bool {
	for _, pattern := range etcAllowed {
		if ok, err := path.Match(pattern, firstParts(name, pattern)); ok && err == nil {
			return !etcDenies(name)
		}
	}
	return false
}

// firstParts cuts name to as many parts as the pattern has.
func firstParts(name, pattern string) string {
	parts := strings.Split(name, "/")
	return path.Join(parts[:min(len(parts), strings.Count(pattern, "/")+1)]...)
}
