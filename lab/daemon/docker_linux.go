package daemon

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"aether/engine"
)

const (
	dockerSocket = "/run/docker.sock"
	dockerImage  = "aether-lab:life"
)

// docker asks Docker for the same lives: a container is made, its command runs to its end,
// its output is read, and it is removed.
type docker struct{ http *http.Client }

// newDocker finds a Docker and gives it an image with the command in it, which undo
// removes.
func newDocker(ctx context.Context) (d *docker, undo func() error, err error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", dockerSocket)
	}
	d = &docker{&http.Client{Transport: &http.Transport{DialContext: dial}}}
	image, err := imageOf(program)
	if err != nil {
		return nil, nil, err
	}
	repo, tag, _ := strings.Cut(dockerImage, ":")
	if _, err := d.ask(ctx, "POST", "/images/create?fromSrc=-&repo="+repo+"&tag="+tag, "application/x-tar", bytes.NewReader(image)); err != nil {
		return nil, nil, err
	}
	return d, func() error {
		_, err := d.ask(context.Background(), "DELETE", "/images/"+dockerImage, "", nil)
		d.http.CloseIdleConnections()
		return err
	}, nil
}

// imageOf is a root file system with a program and the libraries that it needs.
func imageOf(name string) ([]byte, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	needs, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", path, err)
	}
	files := map[string]string{"bin/" + name: path}
	for word := range strings.FieldsSeq(string(needs)) {
		if strings.HasPrefix(word, "/") {
			files[word[1:]] = word
		}
	}
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	for name, from := range files {
		content, err := os.ReadFile(from)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
		}
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return nil, err
		}
	}
	return image.Bytes(), w.Close()
}

// ask gives the answer of Docker, which must be a good one.
func (d *docker) ask(ctx context.Context, method, path, kind string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	answer, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	err = errors.Join(err, answer.Body.Close())
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("docker: %s %s: %s: %.200s", method, path, answer.Status, text)
	}
	return text, err
}

// way is Docker as one. Its containers run one command and are made for it, so that what
// makes one is the creation and what runs it the start.
func (d *docker) way() way {
	return way{
		name: rowDocker,
		create: func(ctx context.Context, _ engine.CreateRequest) (string, error) {
			spec := fmt.Sprintf(`{"Image": %q, "Cmd": ["/bin/%s", %q], "NetworkDisabled": true, "HostConfig": {"NetworkMode": "none"}}`, dockerImage, program, word)
			text, err := d.ask(ctx, "POST", "/containers/create", "application/json", strings.NewReader(spec))
			var made struct{ ID string }
			if err == nil {
				err = json.Unmarshal(text, &made)
			}
			return made.ID, err
		},
		exec: func(ctx context.Context, id string) error {
			if _, err := d.ask(ctx, "POST", "/containers/"+id+"/start", "", nil); err != nil {
				return err
			}
			if _, err := d.ask(ctx, "POST", "/containers/"+id+"/wait", "", nil); err != nil {
				return err
			}
			out, err := d.ask(ctx, "GET", "/containers/"+id+"/logs?stdout=1", "", nil)
			const header = 8 // of the first piece of output
			if err == nil && len(out) < header {
				err = errors.New("the container said nothing")
			}
			if err != nil {
				return err
			}
			return check(0, string(out[header:]))
		},
		destroy: func(ctx context.Context, id string) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := d.ask(ctx, "DELETE", "/containers/"+id+"?force=1", "", nil)
			return err
		},
	}
}
