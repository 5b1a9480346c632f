package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/starter/internal/cli/app"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

// TestReference keeps docs/cli.md, the help of every command, as the commands print it.
func TestReference(t *testing.T) {
	root := command(&app.App{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var b bytes.Buffer
	b.WriteString("# Command line\n\nThe help of each command. `go test ./starter/internal/cli -run TestReference " +
		"-update` " +
		"writes this page.\n")
	writeReference(&b, root)
	file := filepath.Join("..", "..", "..", "docs", "cli.md")
	if *update {
		require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(written), b.String(), "run it with -update")
}

func writeReference(b *bytes.Buffer, cmd *cobra.Command) {
	var help bytes.Buffer
	cmd.SetOut(&help)
	_ = cmd.Help() // writes to the buffer
	text, _, _ := strings.Cut(help.String(), "\nGlobal Flags:\n")
	fmt.Fprintf(b, "\n## %s\n\n```\n%s\n```\n", cmd.CommandPath(), strings.TrimSpace(text))
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			writeReference(b, sub)
		}
	}
}
