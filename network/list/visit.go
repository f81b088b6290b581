package list

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"aether/internal/bounded"
)

const (
	maxPage    = 8 << 20
	maxHeader  = 64 << 10
	maxHops    = 5
	maxPointed = 8 // hosts of one site: a page that names hundreds is no index
)

// visit asks one site what it points to. It goes to hosts alone that settings name: what
// a page or a redirection names is noted, and not asked.
type visit struct {
	site    site
	named   map[string]bool // by what they are written as
	pointed []*url.URL
	client  *http.Client
}

// status is an answer that is not the page.
type status int

func (s status) Error() string { return fmt.Sprintf("it answers %d", int(s)) }

var errElsewhere = errors.New("it redirects to a host that no setting names, which was not asked")

func newVisit(s site, named map[string]bool, timeout time.Duration) *visit {
	v := &visit{site: s, named: named}
	transport := &http.Transport{
		Proxy:                  v.proxy,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    timeout,
		ForceAttemptHTTP2:      true,
	}
	v.client = &http.Client{Transport: transport, CheckRedirect: v.redirected, Timeout: timeout}
	return v
}

func (v *visit) proxy(req *http.Request) (*url.URL, error) {
	via, ok := v.site.proxies.of(req.URL)
	if !ok {
		return nil, nil
	}
	u := *via.url
	if user, password, ok := via.credential.Basic(); ok {
		u.User = url.UserPassword(user, password)
	}
	return &u, nil
}

func (v *visit) redirected(req *http.Request, via []*http.Request) error {
	v.found(req.URL)
	target, err := targetOf(req.URL)
	first := via[0].URL
	if err != nil || !v.named[target.String()] || first.Scheme == "https" && req.URL.Scheme != "https" {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxHops {
		return fmt.Errorf("it redirects over %d times", maxHops)
	}
	if req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		req.Header.Del("Authorization")
	}
	return nil
}

// found notes a URL that the site points to. A credential in it is none of ours.
func (v *visit) found(u *url.URL) {
	bare := *u
	bare.User = nil
	v.pointed = append(v.pointed, &bare)
}

// get reads a page, relative to the site.
func (v *visit) get(ctx context.Context, method, reference, accept string) (body []byte, header http.Header, at *url.URL, err error) {
	u, err := v.site.url.Parse(reference)
	if err != nil {
		return nil, nil, nil, errors.New("it makes no URL")
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, nil, nil, errors.New("it makes no request")
	}
	req.Header.Set("Accept", accept)
	if v.site.credential.Known() {
		req.Header.Set("Authorization", v.site.credential.Header())
	}
	resp, err := v.client.Do(req)
	if err != nil {
		return nil, nil, nil, withoutURL(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, nil, nil, errElsewhere
	case resp.StatusCode != http.StatusOK:
		return nil, nil, nil, status(resp.StatusCode)
	}
	body, err = bounded.ReadAll(resp.Body, "its page", maxPage)
	return body, resp.Header, resp.Request.URL, withoutURL(err)
}

// getJSON reads a page into a value.
func (v *visit) getJSON(ctx context.Context, reference string, into any) error {
	body, _, _, err := v.get(ctx, http.MethodGet, reference, "application/json")
	if err != nil {
		return err
	}
	if json.Unmarshal(body, into) != nil {
		return errors.New("its page is not as expected")
	}
	return nil
}

// withoutURL gives the cause alone: the URL may have a credential in its query.
func withoutURL(err error) error {
	var wrapped *url.Error
	if !errors.As(err, &wrapped) {
		return err
	}
	if wrapped.Timeout() {
		return errors.New("it did not answer in time")
	}
	return wrapped.Err
}

// redirections asks where a URL leads, and for nothing else of it.
func redirections(reference string) func(context.Context, *visit) error {
	return func(ctx context.Context, v *visit) error {
		_, _, _, err := v.get(ctx, http.MethodHead, reference, "*/*")
		var answered status
		if errors.As(err, &answered) {
			return nil // it answers itself, whatever it says
		}
		return err
	}
}

// directory gives a URL whose relative references stay below it.
func directory(u *url.URL) *url.URL {
	at := *u
	at.RawQuery, at.Fragment = "", ""
	if len(at.Path) == 0 || at.Path[len(at.Path)-1] != '/' {
		at = *at.JoinPath("/")
	}
	return &at
}
