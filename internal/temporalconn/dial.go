package temporalconn

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/internal/statedir"
)

// Options select a Temporal cluster and configure the connection. Empty fields, TLS and the API key are taken from
// Temporal's own environment variables and profiles (TEMPORAL_*, temporal.toml). If these do not set an address, it is
// that of the development server whose ports StateDir stores, or 127.0.0.1:7233. The default namespace is "default".
type Options struct {
	Address   string
	Namespace string
	Environ   []string // in the form of os.Environ
	// StateDir is the folder that may store the ports of a development server; empty means no folder.
	StateDir string
	Identity string
	Logger   *slog.Logger
	// Keys encrypts all payloads; nil means no encryption. Worker is set for a worker, whose tasks must fail if a payload
	// cannot be decrypted.
	Keys   *codec.Keys
	Worker bool
	// Metrics gets the metrics of the Temporal SDK; nil drops them.
	Metrics client.MetricsHandler
}

// FromConfig returns the options for the [temporal] section of agent.toml.
func FromConfig(t config.Temporal, environ []string) Options {
	return Options{Address: t.Address, Namespace: t.Namespace, Environ: environ, StateDir: statedir.Name}
}

// Defaults of a development server.
const (
	DefaultAddress   = "127.0.0.1:7233"
	DefaultNamespace = "default"
)

// Conn is a connection to Temporal.
type Conn = client.Client

// Dial connects to Temporal and checks that the cluster answers. The error is ErrUnreachable if it does not,
// config.ErrCredentials if it rejects the credentials, config.ErrInvalid if the options are invalid, and the cause if
// ctx is cancelled. The caller closes the connection.
func Dial(ctx context.Context, o Options) (Conn, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	c, err := client.DialContext(ctx, opts)
	if err == nil {
		return c, nil
	}
	switch serviceerror.ToStatus(err).Code().String() {
	case "PermissionDenied", "Unauthenticated":
		return nil, WithKind(config.ErrCredentials, fmt.Errorf(
			"the Temporal at %s refuses the connection: check the API key or the certificate: %w", opts.HostPort, err))
	}
	if ctx.Err() == context.Canceled {
		return nil, context.Cause(ctx)
	}
	return nil, unreachable(opts.HostPort, err)
}

// Resolved returns the address and the namespace that Dial would use.
func (o Options) Resolved() (address, namespace string, err error) {
	opts, err := o.resolve()
	return opts.HostPort, opts.Namespace, err
}

// resolve returns the options of the SDK's client. It refuses a connection to another machine that would not be
// encrypted, unless Temporal's own configuration disables TLS (TEMPORAL_TLS=false).
func (o Options) resolve() (client.Options, error) {
	profile, err := o.profile()
	if err != nil {
		return client.Options{}, err
	}
	ports, _, err := o.DevPorts()
	if err != nil {
		return client.Options{}, err
	}
	profile.Address = cmp.Or(o.Address, profile.Address, DefaultAddress)
	if ports.Frontend > 0 { // no setting names an address
		profile.Address = ports.Address()
	}
	profile.Namespace = cmp.Or(o.Namespace, profile.Namespace, DefaultNamespace)
	encrypted := profile.APIKey != "" || profile.TLS != nil // or TLS is disabled explicitly
	if !encrypted && !loopback.Address(profile.Address) {
		return client.Options{}, invalid("%s is not on this machine and the connection would not be encrypted: set "+
			"TEMPORAL_TLS=true or TEMPORAL_API_KEY, or allow it with TEMPORAL_TLS=false", profile.Address)
	}
	opts, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, invalid("making Temporal's client options: %w", err)
	}
	opts.ConnectionOptions.DialOptions = append(opts.ConnectionOptions.DialOptions, AnyWorkflowID())
	if loopback.Address(opts.HostPort) && opts.ConnectionOptions.GrpcCompression == nil {
		// By default the SDK compresses. Between processes of one machine that costs both sides more than the bytes it
		// saves.
		opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	o.encrypt(&opts)
	opts.Identity, opts.MetricsHandler = o.Identity, o.Metrics
	opts.Logger = log.NewStructuredLogger(o.logger())
	return opts, nil
}

// encrypt makes the client encrypt and decrypt payloads with o.Keys, if there are any.
func (o Options) encrypt(opts *client.Options) {
	if o.Keys == nil {
		return
	}
	opts.DataConverter = o.Keys.DataConverter(opts.Namespace)
	if o.Worker {
		opts.DataConverter = o.Keys.WorkerDataConverter(opts.Namespace)
	}
	opts.FailureConverter = codec.FailureConverter(opts.DataConverter)
}

// profile returns the settings from Temporal's own environment variables and configuration file.
func (o Options) profile() (envconfig.ClientConfigProfile, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		EnvLookup: Environ(o.Environ),
	})
	if err != nil {
		return profile, invalid("reading Temporal's client configuration: %w", err)
	}
	return profile, nil
}

// logger returns the logger for the SDK: without content if payloads are encrypted.
func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	h := o.Logger.Handler()
	if o.Keys != nil {
		h = ContentFree(h)
	}
	return slog.New(cancellationLog{h})
}
