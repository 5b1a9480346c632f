package shell

import (
	"archive/zip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/everturn/everturn/activities/tools/shell/proxy"
	"github.com/everturn/everturn/internal/sandbox"
)

// resolver returns a resolver for which all names are 127.0.0.1, except those that begin with private, and notes which
// names were looked up.
func resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				address := [4]byte{127, 0, 0, 1}
				if strings.HasPrefix(q.Name.String(), "private") {
					address = [4]byte{10, 0, 0, 1}
				}
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body: &dnsmessage.AResource{A: address}}}
			}
			if reply, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// site returns the folder of a web site with a page, a Go module and a git repository.
func site(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mod := filepath.Join(dir, "example.org/thing/@v")
	require.NoError(t, errors.Join(os.MkdirAll(mod, 0o755), os.Mkdir(filepath.Join(dir, "-"), 0o755)))
	source := t.TempDir()
	for file, text := range map[string]string{filepath.Join(dir, "hello"): "hello over there\n",
		filepath.Join(dir, "-/ping"): "{}", filepath.Join(source, "go.mod"): "module example.org/thing\n",
		filepath.Join(mod, "v1.0.0.mod"):  "module example.org/thing\n",
		filepath.Join(mod, "v1.0.0.info"): `{"Version":"v1.0.0"}`} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	zipped, err := os.Create(filepath.Join(mod, "v1.0.0.zip"))
	require.NoError(t, err)
	w := zip.NewWriter(zipped)
	inside, err := w.Create("example.org/thing@v1.0.0/go.mod")
	require.NoError(t, err)
	_, err = inside.Write([]byte("module example.org/thing\n"))
	require.NoError(t, err)
	require.NoError(t, errors.Join(w.Close(), zipped.Close()))
	for _, args := range [][]string{{"init", "-q", "-b", "main", source}, {"-C", source, "add", "."},
		{"-C", source, "-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "first"},
		{"clone", "-q", "--bare", source, filepath.Join(dir, "repo.git")},
		{"-C", filepath.Join(dir, "repo.git"), "update-server-info"}} {
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return dir
}

func portOf(s *httptest.Server) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String()) // the address has a port
	return port
}

// withProxy returns a sandbox whose commands have a proxy.
func withProxy(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	box, err := sandbox.Open(t.Context(), sandbox.Options{Level: sandbox.LevelNamespace, Network: sandbox.NetworkProxy,
		Environ: os.Environ(), Limits: sandbox.Limits{Processes: 200, Memory: 2 << 30, File: 64 << 20}})
	require.NoError(t, err)
	return box
}

// TestCommandsReachListedHosts lets real programs use the proxy, and try to get around it.
func TestCommandsReachListedHosts(t *testing.T) {
	f, o := workspace(t, sandbox.LevelNamespace)
	files := http.FileServer(http.Dir(site(t)))
	secure, plain := httptest.NewTLSServer(files), httptest.NewServer(files)
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	securePort, plainPort := portOf(secure), portOf(plain)
	require.NoError(t, os.WriteFile(filepath.Join(f.Workspace, "build/ca.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	o.Sandbox = withProxy(t)
	o.Proxy = proxy.Options{Hosts: []string{"*.example.com:" + securePort, "Web.example.com:" + plainPort,
		"private.example.com"}, Networks: []string{"127.0.0.0/8"}, Resolver: resolver(t)}
	require.NoError(t, o.Proxy.Check())
	words := strings.NewReplacer("SECURE", securePort, "PLAIN", plainPort)
	for _, c := range []struct{ program, line, says string }{
		{"curl", "curl -sS --cacert build/ca.pem https://web.example.com:SECURE/hello", "hello over there"},
		{"curl", "curl -sS http://web.example.com:PLAIN/hello", "hello over there"},
		{"curl", "curl -sS http://WEB.example.com.:PLAIN/hello", "hello over there"},
		{"go", "mkdir build/m && cd build/m && go mod init x && GONOSUMDB=* GOPROXY=https://mods.example.com:SECURE " +
			"SSL_CERT_FILE=../ca.pem go mod download -json example.org/thing@v1.0.0", `"Version": "v1.0.0"`},
		{"git", "git -c http.sslCAInfo=$PWD/build/ca.pem clone -q " +
			"https://git.example.com:SECURE/repo.git build/clone && cat build/clone/go.mod", "module example.org/thing"},
		{"npm", "npm ping --cafile build/ca.pem --registry https://npm.example.com:SECURE/", "PONG"},
		{"node", "node -e 'require(\"http\").createServer((q, r) => r.end(\"own\")).listen(8123); " +
			"setTimeout(process.exit, 9000)' & " +
			"for i in 1 2 3 4 5 6 7 8 9; do curl -s http://127.0.0.1:8123/ && exit; sleep 0.5; done; exit 1", "own"},
	} {
		if _, err := exec.LookPath(c.program); err != nil {
			t.Logf("skipped, because there is no %s", c.program)
			continue
		}
		out, err := o.run(t.Context(), input{Command: words.Replace(c.line)})
		assert.NoError(t, err, c.line)
		assert.Contains(t, out, c.says, c.line)
	}
	for _, c := range []struct{ line, refused string }{
		{"curl -sSf https://elsewhere.example.org/", "elsewhere.example.org (not in hosts"},
		{"curl -sSf http://other.example.com/", "other.example.com (not in hosts"},
		{"curl -sSf http://web.example.com:22/", "web.example.com:22 (not in hosts"},
		{"curl -sSf https://private.example.com/", "private.example.com (its address"},
		{"curl -sSf http://private.example.com/", "private.example.com (its address"},
		{"curl -sSf --noproxy x http://127.0.0.1:PLAIN/hello", "127.0.0.1 (an address"},
		{"curl -sSf --noproxy x http://[::1]:PLAIN/hello", "::1 (an address"},
		{"curl -sSf --noproxy x http://localhost:PLAIN/hello", "localhost (an address"},
		{"bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; " +
			"printf \"CONNECT 2130706433:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n\" >&3; head -1 <&3; exit 22'",
			"2130706433 (an address"},
		{"curl -sSf --noproxy x -H 'Host: web.example.com' http://1.2.3.4/", "1.2.3.4 (an address"},
		{"go mod download example.org/other@v1.0.0 2>&1", "proxy.golang.org (not in hosts"},
		{"curl -sSf --noproxy '*' --max-time 2 http://127.0.0.1:PLAIN/hello", ""},
		{"curl -sSf --noproxy '*' --max-time 2 http://web.example.com:PLAIN/", ""},
		{"curl -sSf --noproxy '*' --max-time 2 http://93.184.215.14/", ""},
	} {
		_, err := o.run(t.Context(), input{Command: words.Replace(c.line)})
		if assert.Error(t, err, c.line) {
			assert.NotContains(t, err.Error(), "hello over there", c.line)
			assert.Contains(t, err.Error(), c.refused, c.line)
			assert.Equal(t, c.refused != "", strings.Contains(err.Error(), "ask the user"), "%s\n%s", c.line, err)
		}
	}
}

// TestTheProxyEndsWithItsCommand ends a command in the middle of a transfer, and opens many connections.
func TestTheProxyEndsWithItsCommand(t *testing.T) {
	f, o := workspace(t, sandbox.LevelNamespace)
	closed := make(chan struct{}, 1000)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := fmt.Fprintln(w, strings.Repeat("x", 1000)); err != nil {
				break
			}
		}
		closed <- struct{}{}
	}))
	t.Cleanup(endless.Close)
	port := portOf(endless)
	o.Sandbox = withProxy(t)
	o.Proxy = proxy.Options{Hosts: []string{"web.example.com:" + port}, Networks: []string{"127.0.0.0/8"},
		Resolver: resolver(t)}
	o.Timeout = 3 * time.Second
	_, err := o.run(t.Context(), input{Command: "curl -sN http://web.example.com:" + port + "/ | " +
		"head -c 1000000 > build/got; " +
		"curl -sNp -x $http_proxy http://web.example.com:" + port + "/ > /dev/null"})
	require.ErrorContains(t, err, "ended after")
	for range 2 {
		<-closed
	}
	got, err := os.Stat(filepath.Join(f.Workspace, "build/got"))
	require.NoError(t, err)
	assert.EqualValues(t, 1_000_000, got.Size())
	o.Timeout = time.Minute
	many := "i=0; while [ $i -lt 90 ]; do curl -sNp -o /dev/null -m 6 -w '%{http_connect}\\n' " +
		"http://web.example.com:" + port + "/ & i=$((i+1)); done; wait; exit 0"
	out, err := o.run(t.Context(), input{Command: many})
	require.NoError(t, err)
	assert.Contains(t, out, "429")
}
