package control

import (
	"os"

	"aether/network/policy"
)

// sentRequest is a request as it is sent. Here, and nowhere else, secrets are encoded.
type sentRequest struct {
	Request
	Secrets map[string]string `json:"secrets,omitempty"`
}

// WriteRequest sends a request with the secrets of its policy, and with a file if that is
// not nil.
func (c *Conn) WriteRequest(r Request, file *os.File) error {
	s := sentRequest{Request: r, Secrets: map[string]string{}}
	for name, value := range r.Policy.Secrets {
		s.Secrets[name] = value.Reveal()
	}
	return c.Write(s, file)
}

// ReadRequest takes the next request, with its file if it has one.
func (c *Conn) ReadRequest() (Request, *os.File, error) {
	var s sentRequest
	file, err := c.Read(&s)
	return s.request(), file, err
}

// request is what was sent.
func (s sentRequest) request() Request {
	if len(s.Secrets) > 0 {
		s.Policy.Secrets = map[string]policy.Secret{}
	}
	for name, value := range s.Secrets {
		s.Policy.Secrets[name] = policy.NewSecret(value)
	}
	return s.Request
}
