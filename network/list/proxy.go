package list

import (
	"net/netip"
	"net/url"
	"strings"
)

// proxies are what a tool would go through, by the scheme of what it asks for.
type proxies struct {
	byScheme map[string]proxy
	// except are hosts that are asked directly, as NO_PROXY has them.
	except []string
}

type proxy struct {
	url        *url.URL // without a credential
	from       string
	credential *Credential
}

// environmentProxies are those that every tool takes where its own settings say nothing.
// The tools differ in which spelling wins where both are there; none sets them apart.
func environmentProxies(env environment) proxies {
	p := proxies{byScheme: map[string]proxy{}, except: strings.FieldsFunc(env.either("no_proxy"), isListSpace)}
	for _, scheme := range []string{"http", "https"} {
		for _, name := range []string{scheme + "_proxy", "all_proxy"} {
			if p.set(scheme, env.either(name), "environment: "+strings.ToUpper(name)) {
				break
			}
		}
	}
	return p
}

func isListSpace(r rune) bool { return r == ',' || r == ' ' }

// set makes a proxy be used, if the text is one.
func (p *proxies) set(scheme, text, from string) bool {
	if text == "" {
		return false
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return false
	}
	credential := takeCredential(u)
	p.byScheme[scheme] = proxy{u, from, credential}
	return true
}

// of gives the proxy for a URL.
func (p proxies) of(u *url.URL) (proxy, bool) {
	via, ok := p.byScheme[u.Scheme]
	if !ok || p.direct(strings.ToLower(u.Hostname())) {
		return proxy{}, false
	}
	return via, true
}

func (p proxies) direct(host string) bool {
	addr, _ := netip.ParseAddr(host)
	for _, one := range p.except {
		one = strings.ToLower(one)
		if one == "*" || one == host {
			return true
		}
		if prefix, err := netip.ParsePrefix(one); err == nil && prefix.Contains(addr) {
			return true
		}
		if domain := strings.TrimPrefix(strings.TrimPrefix(one, "*"), "."); domain != "" && strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}
