package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMessagesSpellCommandsAsTheUserStartedTheProgram(t *testing.T) {
	const text = "look with `starter show`, or\n  starter attach s\na starter is no command"
	for name, c := range map[string]struct {
		app  app
		want string
	}{
		"a binary": {app{program: programName("/usr/bin/et")},
			"look with `et show`, or\n  et attach s\na starter is no command"},
		"go run": {app{program: programName("/tmp/go-build1/b001/exe/starter")},
			"look with `go run ./starter show`, or\n  go run ./starter attach s\na starter is no command"},
		"a tenant": {app{program: "starter", overrides: map[string]string{"tenant": "acme"}},
			"look with `starter --tenant acme show`, or\n  starter --tenant acme attach s\na starter is no command"},
		"a setting": {app{program: "starter", configPath: "my agent.toml"}, "look with `starter --config 'my agent.toml' " +
			"show`, or\n  starter --config 'my agent.toml' attach s\na starter is no command"},
	} {
		assert.Equal(t, c.want, c.app.withTypedCommands(text), name)
	}
}

func TestListsAreAnArrayOrALineForEachElement(t *testing.T) {
	c := newConsole(t)
	for output, want := range map[string]string{outputJSON: "[1,2]\n", outputJSONL: "1\n2\n", outputText: ""} {
		c.out.Reset()
		require.NoError(t, printList(&c.out, output, []int{1, 2}, func() error { return nil }))
		assert.Equal(t, want, c.out.String(), output)
	}
	c.out.Reset()
	require.NoError(t, printList[int](&c.out, outputJSON, nil, nil))
	assert.Equal(t, "[]\n", c.out.String(), "an empty list is not null")
}
