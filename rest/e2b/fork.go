package e2b

import (
	"net/http"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// forkResult is one child, or why there is none.
type forkResult struct {
	Sandbox *sandboxBody `json:"sandbox,omitempty"`
	Error   *failure     `json:"error,omitempty"`
}

// fork makes children that go on from where the sandbox is: all of them or none. They have
// its words and what is to happen to it, and a time to live of their own.
func (d *Dialect) fork(v *rest.Visit) error {
	req := struct {
		Count   int    `json:"count"`
		Timeout *int64 `json:"timeout"`
	}{Count: 1}
	s, timeout, err := d.asked(v, &req, &req.Timeout)
	if err != nil {
		return err
	}
	leave, err := v.Creation()
	if err != nil {
		return err
	}
	defer leave()
	children, err := d.engine.Fork(v.Context(), v.Who, s.ID, engine.ForkRequest{Count: req.Count, Timeout: timeout, Metadata: s.Metadata, Then: s.Then, AutoResume: s.AutoResume, Keep: s.Keep})
	if err != nil {
		return err
	}
	results := make([]forkResult, len(children))
	for i, child := range children {
		d.books.copy(s.ID, child.ID)
		body := d.made(v.Request, child)
		results[i].Sandbox = &body
	}
	return v.Answer(http.StatusCreated, results)
}

// snapshotBody is a snapshot; a client starts from it as from a template.
type snapshotBody struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

func shown(s engine.Snapshot) snapshotBody {
	body := snapshotBody{SnapshotID: s.ID, Names: []string{}}
	if s.Name != "" {
		body.Names = append(body.Names, s.Name)
	}
	return body
}

func (d *Dialect) snapshot(v *rest.Visit) error {
	var req struct {
		Name   string `json:"name"`
		Memory *bool  `json:"memory"`
	}
	if err := v.Body(&req); err != nil {
		return err
	}
	s, err := d.of(v)
	if err != nil {
		return err
	}
	asked := engine.SnapshotRequest{Name: req.Name}
	if req.Memory != nil && !*req.Memory {
		asked.Fidelity = sandbox.Filesystem
	}
	leave, err := v.Creation()
	if err != nil {
		return err
	}
	defer leave()
	made, err := d.engine.Snapshot(v.Context(), v.Who, s.ID, asked)
	if err != nil {
		return err
	}
	d.books.copy(s.ID, made.ID)
	return v.Answer(http.StatusCreated, shown(made))
}

func (d *Dialect) listSnapshots(v *rest.Visit) error {
	query := v.URL.Query()
	limit, err := limitOf(query)
	if err != nil {
		return err
	}
	page, err := d.engine.Snapshots(v.Context(), v.Who, engine.SnapshotQuery{Sandbox: query.Get("sandboxID"), Name: query.Get("name"), After: query.Get("nextToken"), Limit: limit})
	if err != nil {
		return err
	}
	list := make([]snapshotBody, len(page.Snapshots))
	for i, s := range page.Snapshots {
		list[i] = shown(s)
	}
	if page.Next != "" {
		v.Writer.Header().Set(nextHeader, page.Next)
	}
	return v.Answer(http.StatusOK, list)
}
