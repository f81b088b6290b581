package rest

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"aether/profile"
	"aether/sandbox"
)

// Ranked is the judgment of a system, and its fitness by the weights that were given.
type Ranked struct {
	profile.Profile
	Weighted *float64 `json:"weighted,omitempty"`
}

// Ranking is the answer of /v1/systems/rank.
type Ranking struct {
	Systems []Ranked `json:"systems"`
}

// RankRequest is by what systems are ranked: how much axes count, as
// "isolation=3,start-latency=2", and conditions that all of them meet, as
// "isolation>=0.8".
type RankRequest struct {
	Weights string
	Needs   []string
}

var systemRoutes = []route{
	{method: "GET", path: "/v1/systems/rank", name: "systems.rank", status: 200, gives: Ranking{}, do: (*Server).rank},
	{method: "GET", path: "/v1/systems/compare", name: "systems.compare", status: 200, gives: profile.Comparison{}, do: (*Server).compare},
}

// parameters reads a query that has nothing but these. Errors: Invalid.
func parameters(r *request, names ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, sandbox.Invalidf("query", "%.200s", err)
	}
	for name, list := range values {
		if len(list) > maxFilters {
			return nil, sandbox.Invalidf(name, "%d are more than %d", len(list), maxFilters)
		}
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
			return nil, sandbox.Invalidf(name, "there is no such parameter")
		}
	}
	return values, nil
}

func (s *Server) rank(_ *answer, r *request) (any, error) {
	values, err := parameters(r, "weight", "need")
	if err != nil {
		return nil, err
	}
	var needs []profile.Need
	for _, text := range values["need"] {
		need, err := profile.ParseNeed(text)
		if err != nil {
			return nil, err
		}
		needs = append(needs, need)
	}
	var weights profile.Weights
	if text := strings.Join(values["weight"], ","); text != "" {
		if weights, err = profile.ParseWeights(text); err != nil {
			return nil, err
		}
	}
	return ranking(weights, needs), nil
}

func ranking(weights profile.Weights, needs []profile.Need) Ranking {
	list := Ranking{Systems: []Ranked{}}
	for _, p := range profile.RankWeighted(weights, profile.Meeting(needs, profile.Profiles(profile.All()...))) {
		one := Ranked{Profile: p}
		if len(weights) > 0 {
			fitness := weights.Fitness(p)
			one.Weighted = &fitness
		}
		list.Systems = append(list.Systems, one)
	}
	return list
}

func (s *Server) compare(_ *answer, r *request) (any, error) {
	values, err := parameters(r, "a", "b")
	if err != nil {
		return nil, err
	}
	a, err := profile.Parse(values.Get("a"))
	if err != nil {
		return nil, err
	}
	b, err := profile.Parse(values.Get("b"))
	if err != nil {
		return nil, err
	}
	return profile.Compare(a, b), nil
}

// Rank gives the judgments of all systems as JSON, best first: those are for people and
// programs to read, and the daemon's may be newer than this one's.
func (c *Client) Rank(ctx context.Context, req RankRequest) (list map[string]any, err error) {
	query := url.Values{"need": req.Needs}
	if req.Weights != "" {
		query.Set("weight", req.Weights)
	}
	err = c.do(ctx, call{op: "rank", method: http.MethodGet, path: "/v1/systems/rank", query: query.Encode(), gives: &list})
	return list, err
}

// Compare gives how much better one system fits than another, as JSON.
func (c *Client) Compare(ctx context.Context, a, b string) (result map[string]any, err error) {
	query := url.Values{"a": {a}, "b": {b}}
	err = c.do(ctx, call{op: "compare", method: http.MethodGet, path: "/v1/systems/compare", query: query.Encode(), gives: &result})
	return result, err
}
