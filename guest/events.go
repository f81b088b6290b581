package guest

import (
	"fmt"
	"slices"

	pb "aether/guest/wire/process"
)

// Trailers that say what the end event has no field for. Clients that do not
// know them pass over them.
const (
	signalTrailer      = "Aether-Signal"
	outOfMemoryTrailer = "Aether-Out-Of-Memory"
)

// lookHeader asks Connect for what is kept alone, which stays kept, and detachHeader has
// Start answer with the start alone, so that all is kept.
const (
	lookHeader   = "Aether-Look"
	detachHeader = "Aether-Detach"
)

// outputKind makes the event of a piece of one stream, copying the bytes.
type outputKind func([]byte) *pb.ProcessEvent

func stdoutEvent(data []byte) *pb.ProcessEvent {
	return dataEvent(&pb.ProcessEvent_DataEvent{Output: &pb.ProcessEvent_DataEvent_Stdout{Stdout: slices.Clone(data)}})
}

func stderrEvent(data []byte) *pb.ProcessEvent {
	return dataEvent(&pb.ProcessEvent_DataEvent{Output: &pb.ProcessEvent_DataEvent_Stderr{Stderr: slices.Clone(data)}})
}

func ptyEvent(data []byte) *pb.ProcessEvent {
	return dataEvent(&pb.ProcessEvent_DataEvent{Output: &pb.ProcessEvent_DataEvent_Pty{Pty: slices.Clone(data)}})
}

func dataEvent(data *pb.ProcessEvent_DataEvent) *pb.ProcessEvent {
	return &pb.ProcessEvent{Event: &pb.ProcessEvent_Data{Data: data}}
}

func startEvent(pid uint32) *pb.ProcessEvent {
	return &pb.ProcessEvent{Event: &pb.ProcessEvent_Start{Start: &pb.ProcessEvent_StartEvent{Pid: pid}}}
}

var keepalive = &pb.ProcessEvent{Event: &pb.ProcessEvent_Keepalive{Keepalive: &pb.ProcessEvent_KeepAlive{}}}

func endEvent(s Status, failed error) *pb.ProcessEvent {
	end := &pb.ProcessEvent_EndEvent{ExitCode: int32(s.Code), Exited: true, Status: fmt.Sprintf("exit status %d", s.Code)}
	if s.Signal != 0 {
		end.ExitCode, end.Exited, end.Status = -1, false, "signal: "+s.Signal.String()
	}
	if s.OutOfMemory {
		end.Status += " (out of memory)"
	}
	switch {
	case failed != nil:
		message := failed.Error()
		end.Error = &message
	case s != Status{}:
		end.Error = &end.Status
	}
	return &pb.ProcessEvent{Event: &pb.ProcessEvent_End{End: end}}
}
