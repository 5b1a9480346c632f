package tests

import (
	"bufio"
	byteorder "encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	pageUpdate = "/api/v1/namespaces/default/workflows/asking/update/Approve"
	pageBody   = `{"request": {"meta": {"updateId": "of-a-page"}, "input": {"name": "Approve"}},
		"waitPolicy": {"lifecycleStage": "UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED"}}`
)

// TestDevTakesNoUpdateFromAWebPage checks that no port accepts an update from a web page: a page can send requests to
// every local port that it finds.
func TestDevTakesNoUpdateFromAWebPage(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	dev := h.begin(nil, "dev", "--no-worker")
	dev.says("press Ctrl-C to exit")
	ui := regexp.MustCompile(`Web UI +http://(\S+)`).FindStringSubmatch(dev.err.String())[1]
	c := h.dial()
	approved := beginAsking(t, c)
	supervisor, server := h.up()
	addresses := append(listening(t, supervisor), listening(t, server)...)
	require.Greater(t, len(addresses), 2)
	hidden := 0
	for _, a := range addresses {
		if a.IP.Equal(net.IPv4(127, 0, 0, 1)) {
			attackAsPage(t, a)
			continue
		}
		assert.True(t, a.IP.IsLoopback())
		hidden++ // the Web UI itself: see TestTheUIsAddressIsNotToBeGuessed
	}
	assert.Zero(t, approved.Load(), "updates of a web page")
	assert.LessOrEqual(t, hidden, 1)

	handle, err := c.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: "asking", UpdateName: "Approve", WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, handle.Get(t.Context(), nil))
	before := approved.Load()
	assert.Positive(t, before, "a client's update")

	userFolder, _ := pageGet(t, ui, "/", ui)
	assert.Equal(t, http.StatusOK, userFolder)
	require.Eventually(t, func() bool { // the Web UI waits before it retries a frontend that was not up
		_, list := pageGet(t, ui, "/api/v1/namespaces/default/workflows", ui)
		return strings.Contains(list, "asking")
	}, within, 100*time.Millisecond)
	status, err := pagePost(t, ui, http.Header{"Sec-Fetch-Site": {"same-origin"}}, ui, true)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, before+1, approved.Load(), "an update of the Web UI's own page")
}

// beginAsking starts a workflow that waits for the update Approve, and returns the number of updates received.
func beginAsking(t *testing.T, c client.Client) *atomic.Int32 {
	t.Helper()
	var approved atomic.Int32
	w := worker.New(c, "pages", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		err := workflow.SetUpdateHandler(ctx, "Approve", func(workflow.Context) error { approved.Add(1); return nil })
		if err != nil {
			return err
		}
		return workflow.Await(ctx, func() bool { return false })
	}, workflow.RegisterOptions{Name: "Asking"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "asking", TaskQueue: "pages"}, "Asking")
	require.NoError(t, err)
	return &approved
}

// attackAsPage sends the requests that a page can send from another site, from another local port, or from a host name
// that it has rebound to this machine, with and without Sec-Fetch-Site.
func attackAsPage(t *testing.T, a *net.TCPAddr) {
	t.Helper()
	rebound := fmt.Sprintf("evil.example:%d", a.Port)
	attacks := map[string]struct {
		host   string
		header http.Header
		token  bool
	}{
		"another site": {a.String(), http.Header{"Origin": {"https://evil.example"}}, false},
		"another site, fetch metadata": {a.String(),
			http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}, false},
		"another local port": {a.String(), http.Header{"Origin": {"http://127.0.0.1:1"}}, true},
		"another local port, metadata": {a.String(),
			http.Header{"Origin": {"http://127.0.0.1:1"}, "Sec-Fetch-Site": {"same-site"}}, true},
		"a sandboxed frame": {a.String(), http.Header{"Origin": {"null"}}, true},
		"rebound name":      {rebound, http.Header{"Origin": {"http://" + rebound}}, true},
		"rebound name, fetch metadata": {rebound,
			http.Header{"Origin": {"http://" + rebound}, "Sec-Fetch-Site": {"same-origin"}}, true},
		"rebound name, authorization": {rebound, http.Header{"Origin": {"http://" + rebound}, "Authorization": {"Bearer x"}},
			false},
	}
	for name, attack := range attacks {
		status, err := pagePost(t, a.String(), attack.header, attack.host, attack.token)
		assert.True(t, err != nil || status >= 400, "%s at %s: status %d", name, a, status)
	}
	_, body := pageGet(t, a.String(), "/api/v1/namespaces/default/workflows", rebound)
	assert.NotContains(t, body, "asking", "a rebound name reads at %s", a)
}

// pageClient sends the requests of a page; ports that do not speak HTTP return errors.
var pageClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// pagePost sends the update as a page's form can, with the Web UI's CSRF token if the host returns one.
func pagePost(t *testing.T, address string, header http.Header, host string, token bool) (status int, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+pageUpdate,
		strings.NewReader(pageBody))
	require.NoError(t, err)
	req.Host, req.Header = host, header.Clone()
	req.Header.Set("Content-Type", "text/plain")
	if token {
		first, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
		require.NoError(t, err)
		first.Host = host
		if got, err := pageClient.Do(first); err == nil {
			for _, cookie := range got.Cookies() {
				req.AddCookie(cookie)
				req.Header.Set("X-CSRF-Token", cookie.Value)
			}
			got.Body.Close()
		}
	}
	got, err := pageClient.Do(req)
	if err != nil {
		return 0, err
	}
	return got.StatusCode, got.Body.Close()
}

func pageGet(t *testing.T, address, path, host string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	require.NoError(t, err)
	req.Host = host
	got, err := pageClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer got.Body.Close()
	b, _ := io.ReadAll(got.Body) // the part of the body that a page would see
	return got.StatusCode, string(b)
}

var socketLink = regexp.MustCompile(`^socket:\[(\d+)\]$`)

// listening lists the TCP addresses that a process listens on (proc_net_tcp(5)).
func listening(t *testing.T, pid int) (addresses []*net.TCPAddr) {
	t.Helper()
	var inodes []string
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, link := range links {
		target, _ := os.Readlink(link) // the descriptor may be closed by now
		if m := socketLink.FindStringSubmatch(target); m != nil {
			inodes = append(inodes, m[1])
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		require.NoError(t, err)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) > 9 && fields[3] == "0A" && slices.Contains(inodes, fields[9]) {
				addresses = append(addresses, kernelAddress(t, fields[1]))
			}
		}
		f.Close()
	}
	return addresses
}

// kernelAddress reads an address as the kernel prints it: words of 32 bits in the machine's byte order, and a port.
func kernelAddress(t *testing.T, s string) *net.TCPAddr {
	t.Helper()
	words, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(words)
	require.NoError(t, err)
	for word := range slices.Chunk(b, 4) {
		byteorder.BigEndian.PutUint32(word, byteorder.NativeEndian.Uint32(word))
	}
	n, err := strconv.ParseUint(port, 16, 16)
	require.NoError(t, err)
	return &net.TCPAddr{IP: net.IP(b), Port: int(n)}
}
