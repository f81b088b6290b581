package rest

import (
	"context"
	"net/http"
	"path"

	"aether/engine"
	"aether/sandbox"
)

const snapshotsPath = "/v1/snapshots"

// named is a part of a path that names something. What nothing can be called becomes
// another such name, which leads nowhere else.
func named(name string) string {
	if !sandbox.IsName(name, maxID) {
		return "-"
	}
	return name
}

// Snapshot keeps a sandbox as it is now, which goes on. With a Key, the same call gives the
// same answer.
func (c *Client) Snapshot(ctx context.Context, id string, req engine.SnapshotRequest) (made engine.Snapshot, err error) {
	err = c.do(ctx, call{op: "snapshot " + id, method: http.MethodPost, path: at(id, "snapshots"), takes: req, gives: &made, headers: map[string]string{idempotencyHeader: req.Key}})
	return made, err
}

// GetSnapshot finds a snapshot. Errors: NotFound.
func (c *Client) GetSnapshot(ctx context.Context, id string) (found engine.Snapshot, err error) {
	err = c.do(ctx, call{op: "get snapshot " + id, method: http.MethodGet, path: path.Join(snapshotsPath, named(id)), gives: &found})
	return found, err
}

// Snapshots gives a page of the snapshots that a query chooses.
func (c *Client) Snapshots(ctx context.Context, q engine.SnapshotQuery) (page engine.SnapshotPage, err error) {
	err = c.do(ctx, call{op: "list snapshots", method: http.MethodGet, path: snapshotsPath, query: formatSnapshotQuery(q), gives: &page})
	return page, err
}

// DeleteSnapshot removes a snapshot. What was made of it lives on.
func (c *Client) DeleteSnapshot(ctx context.Context, id string) error {
	return c.do(ctx, call{op: "delete snapshot " + id, method: http.MethodDelete, path: path.Join(snapshotsPath, named(id))})
}

// Rollback has a sandbox be again what it was at a snapshot or a mark.
func (c *Client) Rollback(ctx context.Context, id string, req engine.RollbackRequest) (now engine.Sandbox, err error) {
	err = c.do(ctx, call{op: "roll back " + id, method: http.MethodPost, path: at(id, "rollback"), takes: req, gives: &now})
	return now, err
}

// Mark marks a sandbox as it is now, in memory. An empty name becomes the next number.
func (c *Client) Mark(ctx context.Context, id, name string) (made engine.Mark, err error) {
	err = c.do(ctx, call{op: "mark " + id, method: http.MethodPost, path: at(id, "marks"), takes: MarkRequest{name}, gives: &made})
	return made, err
}

// Marks lists the marks of a sandbox, oldest first.
func (c *Client) Marks(ctx context.Context, id string) ([]engine.Mark, error) {
	var list Marks
	err := c.do(ctx, call{op: "marks of " + id, method: http.MethodGet, path: at(id, "marks"), gives: &list})
	return list.Marks, err
}

// DeleteMark ends a mark.
func (c *Client) DeleteMark(ctx context.Context, id, name string) error {
	return c.do(ctx, call{op: "delete a mark of " + id, method: http.MethodDelete, path: at(id, "marks", named(name))})
}
