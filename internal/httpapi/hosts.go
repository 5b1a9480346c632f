package httpapi

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/loopback"
)

// hosts checks the header Host, so that a page cannot reach a server of this machine under a name of its own (DNS
// rebinding).
type hosts struct {
	public string // of http.public_url; "": unknown
	local  bool   // the server listens on a loopback address only
}

func newHosts(o config.HTTP) (h hosts, err error) {
	h.local = loopback.Address(o.Listen)
	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil {
			return h, fmt.Errorf("http.public_url: %w", err)
		}
		h.public = u.Host
	}
	return h, nil
}

// allow reports whether a request may name the host.
func (h hosts) allow(host string) bool {
	switch {
	case host == h.public && host != "":
		return true
	case h.local:
		return loopback.Address(host)
	}
	return h.public == "" || loopback.Address(host) // a probe on the machine itself
}

// probes are the paths that a request may name under any host, because an orchestrator uses the address of a container.
// They return no content.
var probes = []string{"/healthz", "/readyz"}

// checked wraps next with the check.
func (h hosts) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(probes, r.URL.Path) && !h.allow(r.Host) {
			(&problem{status: http.StatusMisdirectedRequest, kind: kindInvalid, code: "wrong_host", message: fmt.Sprintf(
				"this server is not %.200q: set http.public_url to the address that its users know", r.Host)}).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// keyPair is a certificate with its key, in files that may be replaced while the server runs.
type keyPair struct {
	cert, key string // files, PEM

	mu      sync.Mutex
	loaded  *tls.Certificate
	checked time.Time
	changed time.Time // when the files were changed that were read last
}

// recheck is how often the files are looked at.
const recheck = 10 * time.Second

// get returns the certificate for a connection. If new files cannot be read, it stays with the old ones: they may be
// half written.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.loaded != nil && now.Sub(k.checked) < recheck {
		return k.loaded, nil
	}
	k.checked = now
	changed, err := lastChange(k.cert, k.key)
	if err == nil && (k.loaded == nil || !changed.Equal(k.changed)) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(k.cert, k.key); err == nil {
			k.loaded, k.changed = &pair, changed
		}
	}
	if k.loaded == nil {
		return nil, fmt.Errorf("reading the certificate of http.tls_cert: %w", err)
	}
	return k.loaded, nil
}

// lastChange returns when one of the files was changed last.
func lastChange(files ...string) (last time.Time, err error) {
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return last, err
		}
		if t := info.ModTime(); t.After(last) {
			last = t
		}
	}
	return last, nil
}
