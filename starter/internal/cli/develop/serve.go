package develop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/httpapi"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Serve returns the command that runs the HTTP server.
func Serve(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the HTTP API and the web page until Ctrl-C",
		Long: `Serve the HTTP API and the web page until Ctrl-C, on the address http.listen. The server needs Temporal
and the journal, and no worker; several servers may run. Callers send a token of "everturn tokens
create", and browsers sign in with a link of "everturn tokens link". Each request is logged to standard
error, without its content. GET /openapi.json describes the API.`,
		Example: `  everturn tokens create ann --rights read,send,decide
  everturn serve --listen 127.0.0.1:7280`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			s, err := openServer(cmd.Context(), loaded.Config, slog.New(slog.NewTextHandler(a.Err, nil)))
			if err != nil {
				return err
			}
			defer s.close()
			a.Note("HTTP      %s", s.url())
			err = s.serve(cmd.Context())
			if err == nil && !errors.Is(context.Cause(cmd.Context()), app.ErrInterrupted) {
				err = context.Cause(cmd.Context())
			}
			return err
		},
	}
	cmd.Flags().Func("listen", "the `address` to listen on (default: http.listen)",
		func(address string) error { return a.Set("http.listen=" + address) })
	return cmd
}

// server is an HTTP server that listens.
type server struct {
	cfg      config.Config
	client   *client.Client
	listener net.Listener
	log      *slog.Logger
}

// openServer connects to Temporal and the journal, and listens on http.listen.
func openServer(ctx context.Context, cfg config.Config, log *slog.Logger) (*server, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.HTTP.Listen)
	if err != nil {
		return nil, app.Usage("listening on http.listen: %w", err)
	}
	c, err := client.Open(ctx, cfg)
	if err != nil {
		l.Close()
		return nil, err
	}
	return &server{cfg, c, l, log}, nil
}

// url returns the address of the server.
func (s *server) url() string {
	if s.cfg.HTTP.TLSCert != "" {
		return "https://" + s.listener.Addr().String()
	}
	return "http://" + s.listener.Addr().String()
}

// serve answers requests until ctx ends.
func (s *server) serve(ctx context.Context) error {
	return httpapi.Serve(ctx, s.listener, httpapi.Options{Client: s.client, Config: s.cfg, Log: s.log})
}

func (s *server) close() {
	s.listener.Close()
	s.client.Close()
}

// serveDev serves the HTTP API for dev until stop is called, and prints how to use it. If another process has the
// address, as another dev has, serveDev only says so.
func serveDev(ctx context.Context, a *app.App, cfg config.Config) (stop func(), err error) {
	file, err := os.OpenFile(filepath.Join(app.StateDir, "http.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, app.Usage("opening the log of the HTTP API: %w", err)
	}
	s, err := openServer(ctx, cfg, slog.New(slog.NewTextHandler(file, nil)))
	if err != nil {
		a.Note("HTTP      not served: %s", app.Line(err.Error(), 300))
		return func() { file.Close() }, nil
	}
	if err := devToken(ctx, s.client.Journal()); err != nil {
		s.close()
		return nil, errors.Join(err, file.Close())
	}
	_, link, err := s.client.Journal().CreateLink(ctx, client.CreateTokenInput{Principal: app.UserName(),
		Rights: client.Rights()})
	if err != nil {
		s.close()
		return nil, errors.Join(err, file.Close())
	}
	a.Note("HTTP      %s (the token is in %s; docs/http.md)\nWeb page  %s (works once, for ten minutes: "+
		"`everturn tokens link` prints another)", s.url(), tokenFile,
		httpapi.SignInURL(cfg.HTTP, s.listener.Addr().String(), link))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.serve(ctx); err != nil {
			a.Note("the HTTP API is no longer served: %v", err)
		}
	}()
	return func() {
		cancel()
		<-done
		s.close()
		file.Close()
	}, nil
}

// tokenFile holds the secret of the token that dev makes for its user.
var tokenFile = filepath.Join(app.StateDir, "http-token")

// devToken makes sure that tokenFile holds the secret of an active token with all rights.
func devToken(ctx context.Context, j client.Journal) error {
	if b, err := os.ReadFile(tokenFile); err == nil {
		t, err := client.TokenBySecret(ctx, j, strings.TrimSpace(string(b)))
		if err == nil && t.Active(time.Now()) {
			return nil
		}
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			return err
		}
	}
	_, secret, err := j.CreateToken(ctx, client.CreateTokenInput{Principal: app.UserName(), Rights: client.Rights()})
	if err != nil {
		return err
	}
	if err := os.WriteFile(tokenFile, []byte(secret+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the token of the HTTP API: %w", err)
	}
	return nil
}
