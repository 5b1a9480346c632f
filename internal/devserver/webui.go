package devserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/everturn/everturn/internal/loopback"
)

// Temporal's Web UI checks the origin of a request only with a CSRF cookie. Under a host name that resolves to this
// machine (DNS rebinding), a web page obtains that cookie as the UI's own pages do, and could then send any update,
// including Approve. The supervisor therefore puts a proxy at the UI's address that accepts only local hosts and
// origins, and the UI itself listens at an address that a web page cannot find.

// HiddenAddress returns a random address of 127.0.0.0/8 with a port that is free. A web page that searches for the
// address has about 2^38 to try.
func HiddenAddress() (*net.TCPAddr, error) {
	var b [3]byte
	rand.Read(b[:])
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 1+b[0]%254, b[1], 1+b[2]%254)})
	if err != nil {
		return nil, fmt.Errorf("choosing an address for the Web UI: %w", err)
	}
	return l.Addr().(*net.TCPAddr), l.Close()
}

// ProxyUI serves the Web UI at address, by a proxy to the real address ui, until stop is called. Errors of the proxy
// are written to stderr.
func ProxyUI(address string, ui *net.TCPAddr, stderr io.Writer) (stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the Web UI: %w", err)
	}
	quiet := log.New(stderr, "", log.LstdFlags)
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Transport: transport, ErrorLog: quiet, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: ui.String()})
		r.Out.Host = r.In.Host // the UI never sends its real address
	}}
	server := &http.Server{Handler: onlyLocal(proxy), ErrorLog: quiet, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			quiet.Printf("serving the Web UI: %v", err)
		}
	}()
	return func() {
		_ = server.Close() // the process is about to end
		<-ended
		transport.CloseIdleConnections()
	}, nil
}

// onlyLocal wraps next. It refuses requests whose Host is not a name of this machine, and requests from another
// origin that could change something.
func onlyLocal(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := (&url.URL{Host: r.Host}).Hostname(); !loopback.Host(host) {
			http.Error(w, "this Web UI is only served as localhost or 127.0.0.1", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
