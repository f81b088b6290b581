package guest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	pb "aether/guest/wire/filesystem"
)

// Read opens a file's contents. The caller closes them.
func (c *Client) Read(ctx context.Context, path string) (io.ReadCloser, error) {
	res, err := c.filesCall(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Write makes or replaces a file, of any size, in one step.
func (c *Client) Write(ctx context.Context, path string, contents io.Reader) error {
	res, err := c.filesCall(ctx, http.MethodPost, path, contents)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func (c *Client) filesCall(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	op := map[string]string{http.MethodGet: "read ", http.MethodPost: "write "}[method] + path
	req, err := http.NewRequestWithContext(ctx, method, clientURL+"/files?"+url.Values{"path": {path}}.Encode(), body)
	if err != nil {
		return nil, clientError(op, err)
	}
	c.opts.mark(req.Header)
	if body != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, clientError(op, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	var failure httpErrorBody
	if err := json.NewDecoder(io.LimitReader(res.Body, maxHTTPError)).Decode(&failure); err != nil {
		failure.Message = res.Status
	}
	return nil, clientStatus(op, res.StatusCode, failure.Message)
}

// Stat describes what is at a path, be it a link.
func (c *Client) Stat(ctx context.Context, path string) (*pb.EntryInfo, error) {
	res, err := callsOf(c).files.Stat(ctx, connect.NewRequest(&pb.StatRequest{Path: path}))
	if err != nil {
		return nil, clientError("stat "+path, err)
	}
	return res.Msg.GetEntry(), nil
}

// List describes what is below a directory, down to a depth of at least one.
func (c *Client) List(ctx context.Context, path string, depth uint32) ([]*pb.EntryInfo, error) {
	res, err := callsOf(c).files.ListDir(ctx, connect.NewRequest(&pb.ListDirRequest{Path: path, Depth: depth}))
	if err != nil {
		return nil, clientError("list "+path, err)
	}
	return res.Msg.GetEntries(), nil
}

// MakeDir makes a directory and its parents. Errors: Conflict if it exists.
func (c *Client) MakeDir(ctx context.Context, path string) error {
	_, err := callsOf(c).files.MakeDir(ctx, connect.NewRequest(&pb.MakeDirRequest{Path: path}))
	return clientError("make directory "+path, err)
}

// Move renames a file or directory, replacing a file that is there.
func (c *Client) Move(ctx context.Context, from, to string) error {
	_, err := callsOf(c).files.Move(ctx, connect.NewRequest(&pb.MoveRequest{Source: from, Destination: to}))
	return clientError("move "+from, err)
}

// Remove removes a file or a whole directory.
func (c *Client) Remove(ctx context.Context, path string) error {
	_, err := callsOf(c).files.Remove(ctx, connect.NewRequest(&pb.RemoveRequest{Path: path}))
	return clientError("remove "+path, err)
}

// Watch calls seen for every change below a directory until the context ends or
// the directory is gone. Ready is called once when nothing is missed any more.
func (c *Client) Watch(ctx context.Context, path string, recursive bool, ready func(), seen func(*pb.FilesystemEvent)) error {
	stream, err := callsOf(c).files.WatchDir(ctx, connect.NewRequest(&pb.WatchDirRequest{Path: path, Recursive: recursive}))
	if err != nil {
		return clientError("watch "+path, err)
	}
	defer stream.Close()
	for stream.Receive() {
		switch event := stream.Msg().GetEvent().(type) {
		case *pb.WatchDirResponse_Start:
			ready()
		case *pb.WatchDirResponse_Filesystem:
			seen(event.Filesystem)
		}
	}
	return clientError("watch "+path, stream.Err())
}
