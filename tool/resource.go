package tool

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// What of sandboxes is read by a URI.
const (
	SandboxesURI = "aether://sandboxes"
	FilesURI     = "aether://sandboxes/{sandbox}/files{+path}"
	LogsURI      = "aether://sandboxes/{sandbox}/logs"
	TreeURI      = "aether://sandboxes/{sandbox}/tree"
)

const (
	maxResource = 1 << 20
	maxTree     = 1000
)

// Resource is what a URI gives: text, or bytes where it is none.
type Resource struct {
	MIMEType string
	Text     string
	Bytes    []byte
}

// Resource reads what of the caller's sandboxes a URI names. Errors: NotFound.
func (s *Session) Resource(ctx context.Context, uri string) (Resource, error) {
	to, err := url.Parse(uri)
	missing := &sandbox.Error{Class: sandbox.NotFound, Field: "uri", Reason: "nothing has this URI", Remedy: "see the templates of resources"}
	if err != nil || to.Scheme != "aether" || to.Host != "sandboxes" || to.RawQuery != "" {
		return Resource{}, missing
	}
	parts := strings.SplitN(strings.TrimPrefix(to.Path, "/"), "/", 3)
	switch {
	case parts[0] == "":
		list, err := s.list(ctx, listArgs{})
		return asJSON(list, err)
	case len(parts) == 3 && parts[1] == "files" && parts[2] != "":
		return s.fileResource(ctx, parts[0], "/"+parts[2])
	case len(parts) == 2 && parts[1] == "logs":
		logs, err := s.logs(ctx, parts[0])
		return asJSON(logs, err)
	case len(parts) == 2 && parts[1] == "tree":
		tree, err := s.tree(ctx, parts[0])
		return asJSON(tree, err)
	}
	return Resource{}, missing
}

func asJSON(value any, err error) (Resource, error) {
	if err != nil {
		return Resource{}, err
	}
	text, err := json.Marshal(value)
	return Resource{MIMEType: "application/json", Text: string(text)}, err
}

func (s *Session) fileResource(ctx context.Context, id, name string) (r Resource, err error) {
	err = s.at(ctx, pathArgs{of{id}, name}, func(client *guest.Client) error {
		contents, err := client.Read(ctx, name)
		if err != nil {
			return err
		}
		defer contents.Close()
		text, err := io.ReadAll(io.LimitReader(contents, maxResource+1))
		if err != nil {
			return err
		}
		if len(text) > maxResource {
			return &sandbox.Error{Class: sandbox.Exhausted, Field: "uri", Reason: "the file has more than 1 MiB", Remedy: "read it in parts, by file_read"}
		}
		r = Resource{MIMEType: mime.TypeByExtension(path.Ext(name)), Bytes: text}
		if utf8.Valid(text) {
			r.Text, r.Bytes = string(text), nil
			if r.MIMEType == "" {
				r.MIMEType = "text/plain"
			}
		}
		return nil
	})
	return r, err
}

// processLog is what a command that runs has written.
type processLog struct {
	Process
	Stdout Stream `json:"stdout"`
	Stderr Stream `json:"stderr"`
}

func (s *Session) logs(ctx context.Context, id string) (list []processLog, err error) {
	list = []processLog{}
	running, err := s.processes(ctx, of{id})
	if err != nil {
		return nil, err
	}
	for _, p := range running.Processes[:min(len(running.Processes), maxShown)] {
		ran, err := s.output(ctx, outputArgs{processArgs: processArgs{of{id}, p.Process}})
		if sandbox.ClassOf(err) == sandbox.NotFound {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, processLog{p, ran.Stdout, ran.Stderr})
	}
	return list, nil
}

// branch is a sandbox and what was forked from it.
type branch struct {
	Sandbox  string    `json:"sandbox"`
	State    string    `json:"state"`
	Created  time.Time `json:"created"`
	Children []*branch `json:"children,omitempty"`
}

// tree is the fork tree that a sandbox is in, from its first known ancestor on.
func (s *Session) tree(ctx context.Context, id string) (*branch, error) {
	if _, err := s.enter(ctx, id, 0); err != nil {
		return nil, err
	}
	branches, parents := map[string]*branch{}, map[string]string{}
	q := engine.Query{}
	for {
		page, err := s.opts.Backend.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, one := range page.Sandboxes {
			branches[one.ID] = &branch{Sandbox: one.ID, State: string(one.State), Created: one.Created}
			parents[one.ID] = one.Parent
		}
		if q.After = page.Next; q.After == "" || len(branches) >= maxTree {
			break
		}
	}
	for child, parent := range parents {
		if from := branches[parent]; from != nil {
			from.Children = append(from.Children, branches[child])
		}
	}
	root := id
	for branches[parents[root]] != nil {
		root = parents[root]
	}
	if branches[root] == nil {
		return nil, &sandbox.Error{Class: sandbox.Exhausted, Reason: "there are too many sandboxes to find this one's tree"}
	}
	return branches[root], nil
}
