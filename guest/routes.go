//go:build linux

package guest

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	fspb "aether/guest/wire/filesystem"
	"aether/guest/wire/filesystem/filesystemconnect"
	procpb "aether/guest/wire/process"
	"aether/guest/wire/process/processconnect"
)

// routes leads every call to the service in its context. It is made once for all
// services: making one takes longer than starting a process.
var routes = sync.OnceValue(func() http.Handler {
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxMessage),
		// Output goes over a local connection: compressing it only costs time.
		connect.WithCompressMinBytes(1 << 30),
		connect.WithInterceptors(errorMapper{}),
	}
	mux := http.NewServeMux()
	mux.Handle(processconnect.NewProcessHandler(processRoutes{}, options...))
	mux.Handle(filesystemconnect.NewFilesystemHandler(fileRoutes{}, options...))
	for pattern, method := range map[string]func(*Service, http.ResponseWriter, *http.Request){
		"GET /health":  (*Service).health,
		"GET /metrics": (*Service).metrics,
		"GET /envs":    (*Service).envs,
		"POST /init":   (*Service).init,
		"GET /files":   (*Service).download,
		"POST /files":  (*Service).upload,
		// Of our own, which other clients do not know.
		"POST /aether/ports/{port}": (*Service).port,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { method(serviceOf(r.Context()), w, r) })
	}
	return mux
})

// overTheWire makes the routes for the first request: a client in the same program
// calls the service without them, and does not wait for them to be made.
func overTheWire(w http.ResponseWriter, r *http.Request) { routes().ServeHTTP(w, r) }

type serviceKey struct{}

// here puts the service into the context of every request.
func (s *Service) here(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serviceKey{}, s)))
	})
}

// serviceOf is the service that here put there.
func serviceOf(ctx context.Context) *Service { return ctx.Value(serviceKey{}).(*Service) }

// processRoutes is the process service of whichever sandbox a call is for.
type processRoutes struct{}

func (processRoutes) of(ctx context.Context) processes { return processes{serviceOf(ctx)} }

func (r processRoutes) List(ctx context.Context, req *connect.Request[procpb.ListRequest]) (*connect.Response[procpb.ListResponse], error) {
	return r.of(ctx).List(ctx, req)
}

func (r processRoutes) Start(ctx context.Context, req *connect.Request[procpb.StartRequest], stream *connect.ServerStream[procpb.StartResponse]) error {
	return r.of(ctx).Start(ctx, req, stream)
}

func (r processRoutes) Connect(ctx context.Context, req *connect.Request[procpb.ConnectRequest], stream *connect.ServerStream[procpb.ConnectResponse]) error {
	return r.of(ctx).Connect(ctx, req, stream)
}

func (r processRoutes) Update(ctx context.Context, req *connect.Request[procpb.UpdateRequest]) (*connect.Response[procpb.UpdateResponse], error) {
	return r.of(ctx).Update(ctx, req)
}

func (r processRoutes) SendInput(ctx context.Context, req *connect.Request[procpb.SendInputRequest]) (*connect.Response[procpb.SendInputResponse], error) {
	return r.of(ctx).SendInput(ctx, req)
}

func (r processRoutes) StreamInput(ctx context.Context, stream *connect.ClientStream[procpb.StreamInputRequest]) (*connect.Response[procpb.StreamInputResponse], error) {
	return r.of(ctx).StreamInput(ctx, stream)
}

func (r processRoutes) SendSignal(ctx context.Context, req *connect.Request[procpb.SendSignalRequest]) (*connect.Response[procpb.SendSignalResponse], error) {
	return r.of(ctx).SendSignal(ctx, req)
}

func (r processRoutes) CloseStdin(ctx context.Context, req *connect.Request[procpb.CloseStdinRequest]) (*connect.Response[procpb.CloseStdinResponse], error) {
	return r.of(ctx).CloseStdin(ctx, req)
}

// fileRoutes is the filesystem service of whichever sandbox a call is for.
type fileRoutes struct{}

func (fileRoutes) of(ctx context.Context) files { return files{serviceOf(ctx)} }

func (r fileRoutes) Stat(ctx context.Context, req *connect.Request[fspb.StatRequest]) (*connect.Response[fspb.StatResponse], error) {
	return r.of(ctx).Stat(ctx, req)
}

func (r fileRoutes) MakeDir(ctx context.Context, req *connect.Request[fspb.MakeDirRequest]) (*connect.Response[fspb.MakeDirResponse], error) {
	return r.of(ctx).MakeDir(ctx, req)
}

func (r fileRoutes) Move(ctx context.Context, req *connect.Request[fspb.MoveRequest]) (*connect.Response[fspb.MoveResponse], error) {
	return r.of(ctx).Move(ctx, req)
}

func (r fileRoutes) ListDir(ctx context.Context, req *connect.Request[fspb.ListDirRequest]) (*connect.Response[fspb.ListDirResponse], error) {
	return r.of(ctx).ListDir(ctx, req)
}

func (r fileRoutes) Remove(ctx context.Context, req *connect.Request[fspb.RemoveRequest]) (*connect.Response[fspb.RemoveResponse], error) {
	return r.of(ctx).Remove(ctx, req)
}

func (r fileRoutes) WatchDir(ctx context.Context, req *connect.Request[fspb.WatchDirRequest], stream *connect.ServerStream[fspb.WatchDirResponse]) error {
	return r.of(ctx).WatchDir(ctx, req, stream)
}

func (r fileRoutes) CreateWatcher(ctx context.Context, req *connect.Request[fspb.CreateWatcherRequest]) (*connect.Response[fspb.CreateWatcherResponse], error) {
	return r.of(ctx).CreateWatcher(ctx, req)
}

func (r fileRoutes) GetWatcherEvents(ctx context.Context, req *connect.Request[fspb.GetWatcherEventsRequest]) (*connect.Response[fspb.GetWatcherEventsResponse], error) {
	return r.of(ctx).GetWatcherEvents(ctx, req)
}

func (r fileRoutes) RemoveWatcher(ctx context.Context, req *connect.Request[fspb.RemoveWatcherRequest]) (*connect.Response[fspb.RemoveWatcherResponse], error) {
	return r.of(ctx).RemoveWatcher(ctx, req)
}
