package containerd

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestMessagesAreThoseOfOthers: what is written here, the library reads, and the
// other way round.
func TestMessagesAreThoseOfOthers(t *testing.T) {
	var named anypb.Any
	if err := proto.Unmarshal(message{}.text(1, "a type").inner(2, message("bytes")), &named); err != nil || named.TypeUrl != "a type" || string(named.Value) != "bytes" {
		t.Errorf("%v, %v", &named, err)
	}
	var stamp timestamppb.Timestamp
	if err := proto.Unmarshal(message{}.number(1, 1<<40).number(2, 7), &stamp); err != nil || stamp.Seconds != 1<<40 || stamp.Nanos != 7 {
		t.Errorf("%v, %v", &stamp, err)
	}
	now := time.Now()
	text, err := proto.Marshal(timestamppb.New(now))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readTime(text); err != nil || !got.Equal(now) {
		t.Errorf("%v, %v, want %v", got, err, now)
	}
	record, err := structpb.NewStruct(map[string]any{"key": "value"})
	if err != nil {
		t.Fatal(err)
	}
	if text, err = proto.Marshal(record); err != nil {
		t.Fatal(err)
	}
	if f, err := message(text).read(); err != nil || len(f.parts[1]) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestLabels(t *testing.T) {
	want := map[string]string{"one": "1", "two": "", "": "3"}
	f, err := message{}.labels(2, want).read()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.labels(2); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// FuzzMessage: whatever a daemon or a shim sends is read within its own size, or
// refused.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(message{}.text(1, "id").labels(2, map[string]string{"a": "b"}).number(3, 4)))
	f.Add([]byte(message{}.inner(1, message{}.inner(1, message{}.number(1, 2)))))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := message(data).read()
		if err != nil {
			return
		}
		size := 0
		for _, parts := range found.parts {
			size += len(bytes.Join(asBytes(parts), nil))
		}
		if size > len(data) {
			t.Errorf("%d bytes became %d", len(data), size)
		}
		for _, kind := range []string{"io.containerd.cgroups.v1.Metrics", "io.containerd.cgroups.v2.Metrics"} {
			_, _ = readStats(message{}.text(1, kind).inner(2, data)) // and does not panic
		}
	})
}

func asBytes(list []message) (bytes [][]byte) {
	for _, m := range list {
		bytes = append(bytes, m)
	}
	return bytes
}
