package workflows

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

func TestEachSessionOfEachTenantHasAWorkflowIDOfItsOwn(t *testing.T) {
	owner := map[string]string{}
	for _, tenant := range []string{"", "a", "b", "a.b", "tenant"} {
		for _, session := range []string{"s", "a/s", "b/s", "tenant:a/s", "tenant:/s", "/s", "x:a/s"} {
			id := WorkflowID(tenant, session)
			assert.Empty(t, owner[id], "%q of %q is reached by %q", session, tenant, owner[id])
			owner[id] = tenant + " " + session
			if got, ok := SessionOf(tenant, id); tenant != "" {
				assert.True(t, ok, id)
				assert.Equal(t, session, got)
			}
			for _, other := range []string{"", "a", "b", "a.b", "tenant"} {
				if _, ok := SessionOf(other, id); other != tenant {
					assert.False(t, ok && turn.CheckSession(session) == nil && tenant != "", "%q takes %q of %q for its own", other,
						id, tenant)
				}
			}
		}
	}
	assert.Equal(t, "s", WorkflowID("", "s"), "histories from before there were tenants go on")
}

func TestARunIsUnderAnIDOfItsTenant(t *testing.T) {
	for text, c := range map[string]struct{ id, session, want string }{
		`{"tenant":"acme"}`:                                     {"tenant:acme/mine", "mine", ""},
		`{"tenant":"acme","session":"mine"}`:                    {"tenant:acme/mine", "mine", ""},
		`{"session":"mine"}`:                                    {"mine", "mine", ""},
		`{"tenant":"acme","session":"other"}`:                   {"tenant:acme/mine", "", "must agree"},
		`{"tenant":"acme","session":"tenant:acme/mine"}`:        {"tenant:acme/mine", "", "must agree"},
		`{"tenant":"acme","message":{"text":"hi"}}`:             {"mine", "", `start the workflow under "tenant:acme/"`},
		`{"tenant":"acme","message":{"text":"hello"}}`:          {"tenant:other/mine", "", "does not belong to tenant"},
		`{"message":{"text":"hi"}}`:                             {"tenant:acme/mine", "", "begins with"},
		`{"tenant":"a/b"}`:                                      {"tenant:a/b/mine", "", "the tenant's name"},
		`{"tenant":"` + strings.Repeat("a", 65) + `"}`:          {"tenant:x/mine", "", "the tenant's name"},
		`{"tenant":"acme","continued":{"counters":{"step":3}}}`: {"tenant:acme/mine", "mine", ""},
		`{"tenant":"acme","session":""}`:                        {"tenant:acme/", "", "empty"},
	} {
		var in Input
		require.NoError(t, json.Unmarshal([]byte(text), &in))
		err := in.check(c.id)
		if c.want == "" {
			assert.Nil(t, err, text)
			assert.Equal(t, c.session, in.sessionOf(c.id))
		} else if assert.NotNil(t, err, text) {
			assert.Contains(t, err.Message, c.want, text)
		}
	}
}
