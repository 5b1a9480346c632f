package temporalconn

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/everturn/everturn/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhichClusterIsMeant(t *testing.T) {
	profiles := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(profiles, []byte("[profile.default]\naddress = \"127.0.0.1:1111\"\nnamespace = "+
		"\"from-profile\"\n[profile.other]\naddress = \"127.0.0.1:2222\"\n"), 0o600))
	file := "TEMPORAL_CONFIG_FILE=" + profiles
	for name, c := range map[string]struct {
		o                  Options
		address, namespace string
	}{
		"nothing said": {Options{}, DefaultAddress, DefaultNamespace},
		"ours":         {Options{Address: "127.0.0.1:9", Namespace: "n"}, "127.0.0.1:9", "n"},
		"Temporal's environment": {Options{Environ: []string{"TEMPORAL_ADDRESS=127.0.0.1:8", "TEMPORAL_NAMESPACE=m"}},
			"127.0.0.1:8", "m"},
		"ours before the environment": {Options{Address: "127.0.0.1:9", Environ: []string{"TEMPORAL_ADDRESS=127.0.0.1:8"}},
			"127.0.0.1:9", DefaultNamespace},
		"the default profile": {Options{Environ: []string{file}}, "127.0.0.1:1111", "from-profile"},
		"a named profile": {Options{Environ: []string{file, "TEMPORAL_PROFILE=other"}}, "127.0.0.1:2222",
			DefaultNamespace},
		"the environment before that": {Options{Environ: []string{file, "TEMPORAL_ADDRESS=127.0.0.1:8"}}, "127.0.0.1:8",
			"from-profile"},
		"ours before a named profile": {Options{Address: "localhost:9", Environ: []string{file, "TEMPORAL_PROFILE=other"}},
			"localhost:9", DefaultNamespace},
		"elsewhere with a key": {Options{Address: "example.com:7233", Environ: []string{"TEMPORAL_API_KEY=k"}}, "example.com:7233",
			DefaultNamespace},
		"elsewhere with TLS": {Options{Address: "example.com:7233", Environ: []string{"TEMPORAL_TLS=true"}}, "example.com:7233",
			DefaultNamespace},
		"elsewhere in plain on demand": {Options{Address: "example.com:7233", Environ: []string{"TEMPORAL_TLS=false"}}, "example.com:7233",
			DefaultNamespace},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Environ = append(c.o.Environ, "HOME="+t.TempDir())
			address, namespace, err := c.o.Resolved()
			require.NoError(t, err)
			assert.Equal(t, c.address, address)
			assert.Equal(t, c.namespace, namespace)
		})
	}
}

func TestOptionsThatMakeNoConnectionAreConfigurationErrors(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		says string
	}{
		"plain text elsewhere":      {Options{Address: "example.com:7233"}, "TEMPORAL_TLS=true"},
		"the environment elsewhere": {Options{Environ: []string{"TEMPORAL_ADDRESS=example.com:7233"}}, "TEMPORAL_TLS=true"},
		"a profile that is not": {Options{Environ: []string{"TEMPORAL_PROFILE=missing", "TEMPORAL_CONFIG_FILE=" + os.DevNull}},
			"missing"},
	} {
		_, err := Dial(t.Context(), c.o)
		assert.ErrorIs(t, err, config.ErrInvalid, name)
		assert.ErrorContains(t, err, c.says, name)
	}
}

func TestNobodyAnswering(t *testing.T) {
	const address = "127.0.0.1:1"
	_, err := Dial(t.Context(), Options{Address: address})
	require.ErrorIs(t, err, ErrUnreachable)
	assert.ErrorContains(t, err, address)
	assert.ErrorContains(t, err, "everturn dev", "it says what to do")

	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("interrupted")
	cancel(reason)
	_, err = Dial(ctx, Options{Address: address})
	assert.ErrorIs(t, err, reason, "giving up is not the cluster's fault")
}

// refusing is a Temporal server that rejects every caller.
type refusing struct {
	workflowservice.UnimplementedWorkflowServiceServer
	code codes.Code
}

func (r refusing) GetSystemInfo(context.Context,
	*workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return nil, status.Error(r.code, "who are you?")
}

func TestAClusterThatLetsNobodyInWantsCredentials(t *testing.T) {
	for _, code := range []codes.Code{codes.PermissionDenied, codes.Unauthenticated} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := grpc.NewServer()
		workflowservice.RegisterWorkflowServiceServer(server, refusing{code: code})
		go func() { _ = server.Serve(l) }() // ends with Stop
		_, err = Dial(t.Context(), Options{Address: l.Addr().String()})
		server.Stop()
		assert.ErrorIs(t, err, config.ErrCredentials, code)
		assert.ErrorContains(t, err, "check the API key", code)
	}
}

func TestTheEnvironmentIsTheOneThatWasHandedOver(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:6666")
	address, _, err := Options{Environ: []string{"HOME=" + t.TempDir()}}.Resolved()
	require.NoError(t, err)
	assert.Equal(t, DefaultAddress, address)
	v, ok := Environ{"A=1=2", "B="}.LookupEnv("A")
	assert.True(t, ok)
	assert.Equal(t, "1=2", v)
	_, ok = Environ{"A=1"}.LookupEnv("B")
	assert.False(t, ok)
}

func TestAJournalHasOneNameHoweverItIsReached(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(dir, "data"), filepath.Join(dir, "link")))
	t.Chdir(dir)
	there, notYet := filepath.Join(dir, "data", "j.db"), filepath.Join(dir, "data", "new", "j.db")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	for file, want := range map[string]string{
		"data/j.db": there, "link/j.db": there, "./data/../link/j.db": there, "link/new/j.db": notYet, notYet: notYet,
		"/": "/",
	} {
		assert.Equal(t, want, canonicalPath(file), file)
	}
}
