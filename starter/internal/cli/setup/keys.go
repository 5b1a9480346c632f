package setup

import (
	"fmt"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Keys returns the command keys.
func Keys(a *app.App) *cobra.Command {
	var file string
	cmd := app.Parent("keys", "Make, list and rotate the keys of the encryption", keysNew(a, &file), keysAdd(a, &file),
		keysPromote(a, &file), keysList(a, &file))
	cmd.Long = `Make, list and rotate the keys of the encryption. All commands change only the key file.

A rotation has two steps. First add a key, and bring the file to every worker, client and codec
server. Then make it the primary key, which encrypts, and bring the file there again. Old keys stay:
without them, old histories and an encrypted journal could not be read.`
	cmd.Example = `  everturn keys new --file .everturn/keys.json
  everturn keys add
  everturn keys promote 1234567890`
	cmd.PersistentFlags().StringVar(&file, "file", "", "the key `file` (default: key_file of [encryption] in agent.toml)")
	return cmd
}

// keyFile returns the path of the key file: flag, the value of --file, or the configured one if flag is "".
func keyFile(a *app.App, flag string) (string, error) {
	if flag == "" {
		loaded, err := a.Load()
		if err != nil {
			return "", err
		}
		flag = loaded.Config.Encryption.KeyFile
	}
	if flag == "" {
		return "", app.Usage("no key file is named: set [encryption] key_file in agent.toml, or add --file")
	}
	return flag, nil
}

// keysNew returns the command that makes a key file. *file is the value of --file.
func keysNew(a *app.App, file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "new",
		Short: "Make a new key file with one key",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := keyFile(a, *file)
			if err != nil {
				return err
			}
			if filepath.Dir(filepath.Clean(path)) == app.StateDir {
				if err := app.KeepState(); err != nil {
					return err
				}
			}
			key, err := codec.Create(path)
			if err != nil {
				return app.AsUsage(err)
			}
			fmt.Fprintln(a.Out, key.ID)
			a.Note("%s is readable only by you. Back it up: what it encrypts cannot be read without it.\n"+
				"Every worker and client needs it as [encryption] key_file.", path)
			return nil
		},
	}
}

// keysAdd returns the command that adds a key. *file is the value of --file.
func keysAdd(a *app.App, file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "add",
		Short: "Add a key that decrypts, and does not encrypt yet",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := keyFile(a, *file)
			if err != nil {
				return err
			}
			key, err := codec.Add(path)
			if err != nil {
				return app.AsUsage(err)
			}
			fmt.Fprintln(a.Out, key.ID)
			a.Note("When every worker, client and codec server has this file, run `everturn keys promote %d`.", key.ID)
			return nil
		},
	}
}

// keysPromote returns the command that makes a key the primary key. *file is the value of --file.
func keysPromote(a *app.App, file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "promote <key>",
		Short: "Make a key the primary key, which encrypts",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 32)
			if err != nil {
				return app.Usage("%q is not a key: `everturn keys list` lists them", args[0])
			}
			path, err := keyFile(a, *file)
			if err != nil {
				return err
			}
			if err := codec.Promote(path, uint32(id)); err != nil {
				return app.AsUsage(err)
			}
			a.Note("New content is encrypted with key %d. Keep the other keys.", id)
			return nil
		},
	}
}

// keysList returns the command that lists the keys. *file is the value of --file.
func keysList(a *app.App, file *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys, without the keys themselves",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := keyFile(a, *file)
			if err != nil {
				return err
			}
			keys, err := codec.List(path)
			if err != nil {
				return app.AsUsage(err)
			}
			return app.PrintList(a.Out, output, keys, func() error {
				w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "KEY\tUSE")
				for _, k := range keys {
					fmt.Fprintf(w, "%d\t%s\n", k.ID, keyUse(k))
				}
				return w.Flush()
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// keyUse describes what a key is used for.
func keyUse(k codec.Key) string {
	switch {
	case k.Primary:
		return "encrypts and decrypts"
	case k.Enabled:
		return "decrypts"
	}
	return "disabled"
}
