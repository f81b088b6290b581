package mcp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"aether/sandbox"
	"aether/tool"
)

const instructions = "Aether runs commands and code in isolated sandboxes that can be forked while they run. " +
	"Make one with sandbox_create and give its id to the other tools. An error says its class, whether to retry, and what to call next."

// maxMessage bounds a message that comes over a stream.
const maxMessage = 8<<20 + 64<<10

// Options are what a server is made of.
type Options struct {
	// Version is that of the program.
	Version string
	// Logger is told of what goes wrong. Nil tells nobody.
	Logger *slog.Logger
}

// Serve answers the messages of one client, line by line, until they end or the context
// does.
func Serve(ctx context.Context, s *tool.Session, in io.ReadCloser, out io.WriteCloser, opts Options) error {
	server := newServer(s.Tools(), func(context.Context) *tool.Session { return s }, opts)
	return server.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxMessage})
}

// newServer offers tools, and what of sandboxes can be read, by the session of each call.
func newServer(tools []*tool.Tool, session func(context.Context) *tool.Session, opts Options) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "aether", Title: "Aether sandboxes", Version: opts.Version},
		&sdk.ServerOptions{Instructions: instructions, Logger: opts.Logger, Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{},
			Prompts: &sdk.PromptCapabilities{}}}) // of which there are none, and the library says so
	for _, t := range tools {
		server.AddTool(toolOf(t), func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			ctx, cancel := calling(ctx)
			defer cancel()
			return resultOf(session(ctx).Do(ctx, t.Name, req.Params.Arguments))
		})
	}
	read := func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		ctx, cancel := calling(ctx)
		defer cancel()
		found, err := session(ctx).Resource(ctx, req.Params.URI)
		if sandbox.ClassOf(err) == sandbox.NotFound {
			return nil, sdk.ResourceNotFoundError(req.Params.URI)
		}
		if err != nil {
			return nil, err
		}
		// What is of a tenant's sandboxes is for nobody else, whoever is between.
		return &sdk.ReadResourceResult{Cacheable: sdk.Cacheable{CacheScope: "private"}, Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: found.MIMEType, Text: found.Text, Blob: found.Bytes}}}, nil
	}
	server.AddResource(&sdk.Resource{URI: tool.SandboxesURI, Name: "sandboxes", Description: "Your sandboxes", MIMEType: "application/json"}, read)
	for _, r := range []sdk.ResourceTemplate{
		{URITemplate: tool.FilesURI, Name: "file", Description: "A file of a sandbox, up to 1 MiB"},
		{URITemplate: tool.LogsURI, Name: "logs", Description: "What the commands that run in a sandbox have written", MIMEType: "application/json"},
		{URITemplate: tool.TreeURI, Name: "tree", Description: "Who was forked from whom", MIMEType: "application/json"},
	} {
		server.AddResourceTemplate(&r, read)
	}
	return server
}

func toolOf(t *tool.Tool) *sdk.Tool {
	h := t.Hints()
	return &sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema(), OutputSchema: t.OutputSchema(),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: h.ReadOnly, DestructiveHint: &h.Destructive, IdempotentHint: h.Idempotent, OpenWorldHint: &h.OpenWorld}}
}

// resultOf is an answer, as structure and as text for clients that know none. Pictures are
// told as such.
func resultOf(r tool.Result) (*sdk.CallToolResult, error) {
	whole, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	result := &sdk.CallToolResult{StructuredContent: json.RawMessage(whole), IsError: r.Failure != nil}
	var pictures []sdk.Content
	if code, ok := r.Value.(tool.CodeResult); ok && len(code.PNG) > 0 {
		for _, png := range code.PNG {
			pictures = append(pictures, &sdk.ImageContent{Data: png, MIMEType: "image/png"})
		}
		code.PNG = nil
		if whole, err = json.Marshal(code); err != nil {
			return nil, err
		}
	}
	result.Content = append([]sdk.Content{&sdk.TextContent{Text: string(whole)}}, pictures...)
	return result, nil
}
