package activities

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/workflows/turn"
)

func TestAnAgentHasOnlyItsOwnSkills(t *testing.T) {
	set := skills.Set{Tokens: 1000, All: []skills.Skill{{Name: "style"}, {Name: "release"}}}
	a, err := New(Options{Journal: openJournal(t), Settings: Settings{Skills: func() skills.Set { return set }}})
	require.NoError(t, err)
	for _, c := range []struct {
		own, want []string
	}{{nil, []string{"release", "style"}}, {[]string{"style"}, []string{"style"}}} {
		chosen, err := a.chooseSkills(t.Context(), turn.Agent{Skills: c.own}, turn.UserMessage{Text: "the style of a release"},
			&turn.Config{Models: []turn.Model{{}}})
		require.NoError(t, err)
		var names []string
		for _, s := range chosen {
			names = append(names, s.Name)
		}
		assert.ElementsMatch(t, c.want, names)
	}
}
