package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func (a *app) exportCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export [session]",
		Short: "Write a session as JSON lines: messages, ledgers, chunks and blobs",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.lookAt(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			session, err := sessionArg(cmd.Context(), store, args)
			if err != nil {
				return err
			}
			if file == "" {
				return store.Export(cmd.Context(), session, a.out)
			}
			f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
			if err != nil {
				return usage("opening the file to export to: %w", err)
			}
			defer f.Close()
			if err := store.Export(cmd.Context(), session, f); err != nil {
				return err
			}
			return f.Close()
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "write to this new `file` instead of standard output")
	return cmd
}

func (a *app) importCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import <file>",
		Short: `Read a session that was exported ("-" for standard input); its hash chain is checked`,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			var r io.Reader = a.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usage("opening the file to import: %w", err)
				}
				defer f.Close()
				r = f
			}
			store, err := openJournal(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			defer store.Close()
			s, err := store.Import(cmd.Context(), r)
			if err != nil {
				return fmt.Errorf("importing (nothing was changed): %w", err)
			}
			fmt.Fprintf(a.out, "session %s · %s · %s\n", line(s.ID, 80), plural(int(s.Head.Seq), "message"), plural(s.Turns, "turn"))
			return nil
		},
	}
}
