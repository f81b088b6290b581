package network

import "aether/sandbox"

// TrustFile is where a sandbox has the certificates that its programs believe in, where
// rules are about its requests: those of its image, and that of its gateway.
const TrustFile = "/tmp/.aether/ca.pem"

// trustVariables name that file to programs.
var trustVariables = []string{
	"SSL_CERT_FILE",       // OpenSSL and what is made with it, Go, Rust
	"CURL_CA_BUNDLE",      // curl
	"REQUESTS_CA_BUNDLE",  // Python's requests, pip
	"GIT_SSL_CAINFO",      // git
	"NODE_EXTRA_CA_CERTS", // Node
	"PIP_CERT",            // pip and npm where settings of the image name another file
	"npm_config_cafile",
}

// TrustEnv are the variables of a sandbox's commands that have its programs believe its
// gateway, or nil where nothing has to be believed.
func TrustEnv(n sandbox.Network) map[string]string {
	if n.Mode != sandbox.EgressNetwork || len(n.HTTP) == 0 {
		return nil
	}
	env := map[string]string{}
	for _, name := range trustVariables {
		env[name] = TrustFile
	}
	return env
}
