//go:build linux

package guest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

var _ InProcessService = (*Service)(nil)

// Backend implements InProcessService.
func (s *Service) Backend() Backend { return s.backend }

func (s *Service) startInProcess(ctx context.Context, opts ClientOptions, req *pb.StartRequest) (inProcessRun, error) {
	header, err := s.admit(ctx, opts)
	if err != nil {
		return nil, rpcError(err)
	}
	if err := receivable(req); err != nil {
		return nil, rpcError(err)
	}
	c, err := s.caller(header, "")
	if err != nil {
		return nil, rpcError(err)
	}
	p, r, err := s.start(ctx, c, req)
	c.done()
	if err != nil {
		return nil, rpcError(err)
	}
	return s.followInProcess(ctx, p, r), nil
}

func (s *Service) connectInProcess(ctx context.Context, opts ClientOptions, sel *pb.ProcessSelector) (inProcessRun, error) {
	if _, err := s.admit(ctx, opts); err != nil {
		return nil, rpcError(err)
	}
	p, err := s.procs.findAny(sel)
	if err != nil {
		return nil, rpcError(err)
	}
	return s.followInProcess(ctx, p, p.out.attach()), nil
}

// admit is what happens to a call before it reaches the service: it says who
// calls, as on the wire, so that both mean the same by it.
func (s *Service) admit(ctx context.Context, opts ClientOptions) (http.Header, error) {
	header := http.Header{}
	opts.mark(header)
	select {
	case <-s.gone:
		return nil, errEnded
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return header, s.checkToken(header)
}

// receivable says whether the wire would bring a request: it refuses what is too large, and
// text that is none. What is far from either is not encoded to find out.
func receivable(req *pb.StartRequest) error {
	if plain(req) {
		return nil
	}
	data, err := proto.Marshal(req)
	if err == nil && len(data) > maxMessage {
		err = &sandbox.Error{Class: sandbox.Exhausted, Reason: fmt.Sprintf("%d bytes are too much for a request", len(data))}
	}
	return err
}

// plain says that all of a request is text, and that it has room twice.
func plain(req *pb.StartRequest) bool {
	left := maxMessage / 2
	text := func(list ...string) bool {
		for _, s := range list {
			const field = 32 // more than is written around each
			if left -= len(s) + field; left < 0 || !utf8.ValidString(s) {
				return false
			}
		}
		return true
	}
	p := req.GetProcess()
	for key, value := range p.GetEnvs() {
		if !text(key, value) {
			return false
		}
	}
	return text(p.GetArgs()...) && text(p.GetCmd(), p.GetCwd(), req.GetTag())
}

// inProcessFollower is a follower that its client draws from directly.
type inProcessFollower struct {
	*follower
	ctx     context.Context
	cancel  context.CancelFunc
	current *pb.ProcessEvent
	err     error
}

// followInProcess follows a process until the context ends, or Close.
func (s *Service) followInProcess(ctx context.Context, p *process, r *reader) *inProcessFollower {
	n := &inProcessFollower{follower: s.follower(p, r, http.Header{})}
	n.ctx, n.cancel = context.WithCancel(ctx)
	// A client that is not drawing must not hold the process back after this.
	context.AfterFunc(n.ctx, r.detach)
	return n
}

// Receive takes each event as it gives it: one that its client drops is gone, as
// it is for one that it has received over the wire.
func (n *inProcessFollower) Receive() bool {
	if n.err != nil {
		return false
	}
	n.current, n.err = n.next(n.ctx, nil)
	if n.err == nil && !n.take(n.current) {
		n.err = n.ctx.Err()
	}
	return n.err == nil
}

func (n *inProcessFollower) event() *pb.ProcessEvent      { return n.current }
func (n *inProcessFollower) ResponseTrailer() http.Header { return n.trailer }

func (n *inProcessFollower) Err() error {
	if n.err == io.EOF {
		return nil
	}
	return rpcError(n.err)
}

// Close may be called while another waits in Receive, which then fails.
func (n *inProcessFollower) Close() error {
	n.cancel()
	n.reader.detach() // now, and not when the context gets to it
	return nil
}

func (n *inProcessFollower) write(ctx context.Context, in *pb.ProcessInput) error {
	return rpcError(n.process.write(ctx, in))
}

func (n *inProcessFollower) writeFollowing(in *pb.ProcessInput) error {
	err := n.ctx.Err()
	if err == nil {
		err = n.write(n.ctx, in)
	}
	if err != nil && n.ctx.Err() != nil {
		return errUnfollowed
	}
	return err
}

func (n *inProcessFollower) closeInput() error { return rpcError(n.process.closeInput()) }
