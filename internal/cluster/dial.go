package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/statedir"
)

// Options select the cluster. Empty fields come from Temporal's own environment variables and profiles (TEMPORAL_*,
// temporal.toml). If those do not set them either, the address is that of the development server whose ports StateDir
// stores, else 127.0.0.1:7233, and the namespace is "default".
type Options struct {
	Address   string
	Namespace string
	Profile   string // of temporal.toml
	APIKey    string
	TLS       bool
	// AllowPlaintext permits a cluster that is not on loopback without TLS or an API key.
	AllowPlaintext bool
	Environ        []string // in the form of os.Environ
	// StateDir is the folder that may store the ports of a development server; empty means no folder.
	StateDir string
	Identity string
	Logger   *slog.Logger
}

// FromConfig returns the options for the [temporal] section of agent.toml.
func FromConfig(t config.Temporal, environ []string) Options {
	return Options{
		Address: t.Address, Namespace: t.Namespace, Profile: t.Profile, APIKey: t.APIKey.Reveal(), TLS: t.TLS,
		AllowPlaintext: t.AllowPlaintext, Environ: environ, StateDir: statedir.Name,
	}
}

// Defaults of a development server.
const (
	DefaultAddress   = "127.0.0.1:7233"
	DefaultNamespace = "default"
)

// Unreachable reports that no Temporal server answers at an address.
type Unreachable struct {
	Address string
	Cause   error
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("no Temporal answers at %s: start one with `go run ./starter dev`, add --dev to the command, or set [temporal] address in agent.toml (%v)", e.Address, e.Cause)
}

// Unwrap makes the error ErrUnreachable.
func (e *Unreachable) Unwrap() []error { return []error{ErrUnreachable, e.Cause} }

// ErrUnreachable means that Temporal does not answer.
var ErrUnreachable = errors.New("no connection to Temporal")

// refusal is an error of the options, or the cluster's rejection of them. kind is config.ErrInvalid or
// config.ErrCredentials, depending on what the operator has to correct.
type refusal struct {
	kind, cause error
}

func (e *refusal) Error() string        { return e.cause.Error() }
func (e *refusal) Unwrap() error        { return e.cause }
func (e *refusal) Is(target error) bool { return target == e.kind }

func invalid(format string, args ...any) error {
	return &refusal{kind: config.ErrInvalid, cause: fmt.Errorf(format, args...)}
}

// Conn is a connection to Temporal.
type Conn = client.Client

// Dial connects and checks that the cluster answers. The error is an *Unreachable if the cluster does not answer,
// config.ErrCredentials if it rejects the caller's credentials, and config.ErrInvalid if the options are invalid.
// The caller closes the client.
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
		return nil, &refusal{kind: config.ErrCredentials, cause: fmt.Errorf("the Temporal at %s refuses the connection: check the API key or the certificate: %w", opts.HostPort, err)}
	}
	if ctx.Err() == context.Canceled {
		return nil, context.Cause(ctx)
	}
	return nil, &Unreachable{Address: opts.HostPort, Cause: err}
}

// Resolved returns the address and the namespace that Dial would use.
func (o Options) Resolved() (address, namespace string, err error) {
	opts, err := o.resolve()
	return opts.HostPort, opts.Namespace, err
}

func (o Options) resolve() (client.Options, error) {
	profile, err := o.profile()
	if err != nil {
		return client.Options{}, err
	}
	ports, _, err := o.DevPorts()
	if err != nil {
		return client.Options{}, err
	}
	override(&profile.Address, o.Address, DefaultAddress)
	if ports.Frontend > 0 {
		profile.Address = ports.Address()
	}
	override(&profile.Namespace, o.Namespace, DefaultNamespace)
	override(&profile.APIKey, o.APIKey, "")
	if o.TLS && profile.TLS == nil {
		profile.TLS = &envconfig.ClientConfigTLS{}
	}
	secure := profile.APIKey != "" || profile.TLS != nil && !profile.TLS.Disabled
	if !secure && !o.AllowPlaintext && !Loopback(profile.Address) {
		return client.Options{}, invalid("%s is not on this machine and would be spoken to without encryption: set [temporal] tls = true or an api_key, or allow_plaintext = true if that is what you want", profile.Address)
	}
	opts, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, invalid("making Temporal's client options: %w", err)
	}
	opts.ConnectionOptions.DialOptions = append(opts.ConnectionOptions.DialOptions, AnyWorkflowID())
	if Loopback(opts.HostPort) && opts.ConnectionOptions.GrpcCompression == nil {
		// By default the SDK compresses. Between processes of one machine that costs both sides more than the bytes it
		// saves.
		opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	opts.Identity = o.Identity
	opts.Logger = log.NewStructuredLogger(o.logger())
	return opts, nil
}

// profile returns the settings of Temporal's own environment variables and profiles.
func (o Options) profile() (envconfig.ClientConfigProfile, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		ConfigFileProfile: o.Profile, EnvLookup: environ(o.Environ),
	})
	if err != nil {
		return profile, invalid("reading Temporal's client configuration: %w", err)
	}
	return profile, nil
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(calm{o.Logger.Handler()})
}

// override sets a profile's value to ours if it is set, otherwise to fallback if the profile has no value.
func override(profile *string, ours, fallback string) {
	switch {
	case ours != "":
		*profile = ours
	case *profile == "":
		*profile = fallback
	}
}

// Loopback reports whether an address (host:port) is on this machine.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
