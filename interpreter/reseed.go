package interpreter

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"

	"aether/sandbox"
)

// Reseeded says what a copy of an interpreter shares with its siblings no more.
type Reseeded struct {
	// Reseeded names the generators that were seeded anew.
	Reseeded []string `json:"reseeded"`
	// Kept names what could not be, and why.
	Kept []string `json:"kept"`
}

// Reseed makes the random numbers of a copy its own. It is asked of every
// interpreter of a forked sandbox before anything else runs there: until then its
// generators give what those of its siblings give. The entropy comes from here
// and from the sandbox's kernel, which in a copied machine may be a copy itself.
func (c *Context) Reseed(ctx context.Context) (Reseeded, error) {
	result, err := c.do(ctx, request{op: "reseed", payload: c.seed()})
	if err != nil {
		return Reseeded{}, err
	}
	var r Reseeded
	if result.Error != nil {
		return r, &sandbox.Error{Op: "interpreter: reseed", Reason: result.Error.Name + ": " + result.Error.Message}
	}
	if v := result.Main(); v != nil {
		err = json.Unmarshal(v.JSON, &r)
	}
	if err != nil || len(r.Reseeded)+len(r.Kept) == 0 {
		return Reseeded{}, &sandbox.Error{Op: "interpreter: reseed", Reason: "the interpreter does not say what it has done", Err: err}
	}
	return r, nil
}

// seed is 128 random bits; for bash a number, which is all that it takes.
func (c *Context) seed() string {
	if c.handle.Language == Bash {
		return strconv.FormatUint(uint64(rand.Uint32()), 10)
	}
	return newToken()
}
