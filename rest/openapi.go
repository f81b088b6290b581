package rest

import (
	_ "embed"
	"encoding/json"
)

// description is the OpenAPI description of /v1, which a test holds to the routes and to
// the types of their bodies.
//
//go:embed openapi.json
var description []byte

func (s *Server) describe(*answer, *request) (any, error) { return json.RawMessage(description), nil }
