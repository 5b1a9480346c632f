package setup

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/httpapi"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Tokens returns the commands for bearer tokens.
func Tokens(a *app.App) *cobra.Command {
	cmd := app.Parent("tokens", "Create, list and revoke the bearer tokens of everturn serve", tokensCreate(a),
		tokensLink(a), tokensList(a), tokensRevoke(a))
	cmd.Long = `Create, list and revoke the bearer tokens of everturn serve. A token belongs to a tenant (--tenant) and
to a principal, the person or program that has it, and has rights: read (sessions, events and
requests), send (messages, and stopping turns), decide (requests), administer (what concerns the
whole tenant). No right implies another.

The journal keeps only a hash of a token's secret. IDs of links for the web page begin with l-, and those
of browsers that have signed in with p-.`
	return cmd
}

// tokensCreate returns the command that creates a token.
func tokensCreate(a *app.App) *cobra.Command {
	var rights []string
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "create <principal>",
		Short: "Create a token and print its secret",
		Long: `Create a token and print its secret, which is not shown again. Decisions that are made with the token
are recorded as made by the principal.`,
		Example: `  everturn tokens create ann --rights read,send,decide --expires 720h
  export EVERTURN_TOKEN=$(everturn tokens create ci)`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			in := client.CreateTokenInput{Principal: args[0], Rights: rightsOf(rights)}
			if expires != 0 {
				in.ExpiresAt = time.Now().Add(expires)
			}
			j, err := app.OpenJournal(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			defer j.Close()
			t, secret, err := j.CreateToken(cmd.Context(), in)
			switch {
			case errors.Is(err, client.ErrInvalid):
				return app.AsUsage(err)
			case err != nil:
				return err
			}
			fmt.Fprintln(a.Out, secret)
			a.Note("Token %s of %s has the rights %s. Keep its secret: it is not shown again.", t.ID, t.Principal,
				rightsText(t))
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&rights, "rights", []string{string(client.RightRead), string(client.RightSend)},
		"what the token permits: read, send, decide, administer")
	flags.DurationVar(&expires, "expires", 0, "how long the token is valid: a `duration` such as 720h (default: until it "+
		"is revoked)")
	return cmd
}

// tokensLink returns the command that makes a link for the web page.
func tokensLink(a *app.App) *cobra.Command {
	var rights []string
	cmd := &cobra.Command{
		Use:   "link [principal]",
		Short: "Print a one-time link that signs a browser in to the web page",
		Long: `Print a one-time link that signs a browser in to the web page of everturn serve. The link works once and
for ten minutes. The browser then stays signed in for 30 days, or until its token is revoked. Without a
principal, it is you.`,
		Example: `  everturn tokens link
  everturn tokens link ann --rights read`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			in := client.CreateTokenInput{Principal: app.UserName(), Rights: rightsOf(rights)}
			if len(args) > 0 {
				in.Principal = args[0]
			}
			j, err := app.OpenJournal(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			defer j.Close()
			link, secret, err := j.CreateLink(cmd.Context(), in)
			switch {
			case errors.Is(err, client.ErrInvalid):
				return app.AsUsage(err)
			case err != nil:
				return err
			}
			fmt.Fprintln(a.Out, httpapi.SignInURL(loaded.Config.HTTP, loaded.Config.HTTP.Listen, secret))
			a.Note("The link signs %s in once, with the rights %s, until %s", link.Principal, rightsText(link),
				link.ExpiresAt.Local().Format(time.TimeOnly))
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&rights, "rights", []string{string(client.RightRead), string(client.RightSend),
		string(client.RightDecide)}, "what the page may do: read, send, decide, administer")
	return cmd
}

// rightsOf returns the rights that a flag names.
func rightsOf(names []string) (rights []client.Right) {
	for _, name := range names {
		rights = append(rights, client.Right(strings.TrimSpace(name)))
	}
	return rights
}

// tokensList returns the command that lists the tokens of the tenant.
func tokensList(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens of the tenant, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				list, err := j.Tokens(cmd.Context())
				if err != nil {
					return err
				}
				return app.PrintList(a.Out, output, list, func() error {
					rows := make([][]string, len(list))
					for i, t := range list {
						rows[i] = []string{t.ID, app.Line(t.Principal, 120), rightsText(t),
							t.CreatedAt.Local().Format(time.DateTime), validity(t, time.Now())}
					}
					return a.Table([]string{"TOKEN", "PRINCIPAL", "RIGHTS", "CREATED", "VALID"}, rows)
				})
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// rightsText returns the rights of a token as --rights takes them.
func rightsText(t client.Token) string {
	names := make([]string, len(t.Rights))
	for i, r := range t.Rights {
		names[i] = string(r)
	}
	return strings.Join(names, ",")
}

// validity describes until when a token is valid.
func validity(t client.Token, now time.Time) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked " + t.RevokedAt.Local().Format(time.DateTime)
	case !t.Active(now):
		return "expired " + t.ExpiresAt.Local().Format(time.DateTime)
	case t.ExpiresAt.IsZero():
		return "until it is revoked"
	}
	return "until " + t.ExpiresAt.Local().Format(time.DateTime)
}

// tokensRevoke returns the command that revokes a token.
func tokensRevoke(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke <token>",
		Short:   "Revoke a token",
		Long:    `Revoke a token, named by its ID: everturn tokens list shows it. The secret is not accepted any more.`,
		Example: `  everturn tokens revoke t-k3vq7d2mzxwa`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				err := j.RevokeToken(cmd.Context(), args[0])
				switch {
				case errors.Is(err, client.ErrNotFound): // the argument may be a secret: the error does not repeat it
					return app.Usage("the tenant has no token of this ID; `everturn tokens list` lists them")
				case err == nil:
					a.Note("Token %s is revoked", args[0])
				}
				return err
			})
		},
	}
}
