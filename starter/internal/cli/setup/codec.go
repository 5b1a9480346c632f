package setup

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/codecserver"
	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Codec returns the command codec.
func Codec(a *app.App) *cobra.Command {
	return app.Parent("codec", "Decrypt for the Web UI and Temporal's command line", codecServe(a))
}

// codecServe returns the command that serves a codec server.
func codecServe(a *app.App) *cobra.Command {
	var listen, tlsCert, tlsKey string
	var allowEncode, noAuth bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a codec server until Ctrl-C",
		Long: `Serve a codec server until Ctrl-C: it decrypts the payloads of the configured namespace for the Web UI
and for temporal --codec-endpoint. [codec_server] says who may use it. Each use is logged to standard
error, without content. GET /healthz answers without credentials.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			o, err := codecOptions(a, loaded.Config)
			if err != nil {
				return err
			}
			o.AllowEncode, o.Auth.Anyone, o.TLSCert, o.TLSKey = allowEncode, noAuth, tlsCert, tlsKey
			return serveCodec(cmd.Context(), a, listen, o)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", app.CodecAddress, "the `address` to listen on")
	cmd.Flags().StringVar(&tlsCert, "tls-cert", "", "the `file` of the TLS certificate, PEM; without it there is no TLS")
	cmd.Flags().StringVar(&tlsKey, "tls-key", "", "the `file` of the certificate's key, PEM")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	cmd.Flags().BoolVar(&allowEncode, "allow-encode", false, "also encrypt, which the Web UI needs to send signals")
	cmd.Flags().BoolVar(&noAuth, "no-auth", false, "let everyone on this machine decrypt; only on a loopback address")
	return cmd
}

// codecOptions returns the options of the codec server that the configuration sets.
func codecOptions(a *app.App, cfg config.Config) (o codecserver.Options, err error) {
	if o.Keys, err = codec.Open(cfg.Encryption); err != nil {
		return o, err
	}
	if o.Keys == nil {
		return o, app.Usage("there are no keys: set [encryption] key_file in agent.toml")
	}
	_, o.Namespace, err = temporalconn.FromConfig(cfg.Temporal, a.Environ).Resolved()
	c := cfg.CodecServer
	o.Auth = codecserver.Auth{Token: c.Token.Reveal(), Issuer: c.OIDCIssuer, Audience: c.OIDCAudience, Allow: c.OIDCAllow}
	o.Origin = c.Origin
	o.Log = slog.New(slog.NewTextHandler(a.Err, nil))
	return o, err
}

// serveCodec serves the codec server on the address listen until ctx ends. It returns nil after Ctrl-C.
func serveCodec(ctx context.Context, a *app.App, listen string, o codecserver.Options) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return app.Usage("listening on %s: %w", listen, err)
	}
	defer l.Close()
	o.Log.Info("codec server listens", "address", l.Addr().String(), "namespace", o.Namespace, "tls", o.TLSCert != "",
		"encode", o.AllowEncode)
	if o.TLSCert == "" && !loopback.Address(l.Addr().String()) {
		o.Log.Warn("tokens and plain content cross the network unencrypted, unless a proxy in front of this server adds TLS")
	}
	if err := codecserver.Serve(ctx, l, o); err != nil {
		return app.AsUsage(err)
	}
	if errors.Is(context.Cause(ctx), app.ErrInterrupted) {
		return nil
	}
	return context.Cause(ctx)
}
