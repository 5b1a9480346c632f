package journaltest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

var driftPromises = []promise{
	{"a changed tool is quarantined until it is approved", changedHeld},
	{"a new tool is quarantined unless the server's configuration is new", newHeld},
	{"a server that was unavailable at first is published for the first time when it is available", firstAfterAway},
	{"an approved tool stays approved", staysAccepted},
	{"allow_tool_changes approves each change, up to a bound", mayChange},
	{"local tools are never quarantined", localFree},
	{"only the version that the operator saw is approved", acceptSeen},
	{"each worker has its own version of a server, whatever others publish", ownVersions},
}

// servers publishes catalogues to a journal.
type servers struct {
	*testing.T
	*journal.DB
}

func newServers(t *testing.T, open func() *journal.DB) *servers { return &servers{T: t, DB: open()} }

// tool returns a version of a tool of server "mail". It is large enough to be stored outside its row.
func tool(name, version string) turn.Descriptor {
	return turn.Descriptor{
		ID: "mcp/mail/" + name, Wire: "mail_" + name, Description: bigText(2000, name+" "+version),
		Schema: json.RawMessage(`{"type":"object"}`),
		Hash:   journal.HashOf([]byte(name + version)), Activity: turn.ActivityRegular, Risk: turn.RiskHigh,
	}
}

func mail(tools ...turn.Descriptor) turn.Catalogue {
	c := turn.Catalogue{Server: "mail", ConfigHash: "configured", Tools: tools}
	for _, d := range tools {
		c.Hash = journal.HashOf([]byte(c.Hash + d.Hash))
	}
	return c
}

func (s *servers) publish(c turn.Catalogue) {
	s.Helper()
	require.NoError(s, s.PublishCatalogue(s.Context(), c))
}

// sees checks what turns see of server "mail": the approved tools, and the quarantined ones.
func (s *servers) sees(tools, held []turn.Descriptor) turn.Catalogue {
	s.Helper()
	list := must(s.Catalogues(s.Context()))(s)
	for _, c := range list {
		if c.Server != "mail" {
			continue
		}
		assert.Equal(s, names(tools), names(c.Tools), "tools")
		var drifted []turn.Descriptor
		for _, d := range c.Quarantined {
			drifted = append(drifted, d.Now)
		}
		assert.Equal(s, names(held), names(drifted), "held")
		return c
	}
	assert.Fail(s, "the server has no catalogue")
	return turn.Catalogue{}
}

func names(list []turn.Descriptor) (out []string) {
	for _, d := range list {
		out = append(out, d.ID+" "+d.Hash)
	}
	return out
}

func these(list ...turn.Descriptor) []turn.Descriptor { return list }

func (s *servers) accept(tools ...string) []turn.QuarantinedTool {
	s.Helper()
	out, err := s.ApproveTools(s.Context(), journal.ApproveToolsInput{Server: "mail", Tools: tools, By: "ada",
		At: start})
	require.NoError(s, err)
	return out
}

func changedHeld(t *testing.T, open func() *journal.DB) {
	s := newServers(t, open)
	read, send := tool("read", "1"), tool("send", "1")
	s.publish(mail(read, send))
	s.sees(these(read, send), nil)
	pulled := tool("send", "2")
	for _, setup := range []string{"configured", "another configuration"} {
		c := mail(read, pulled)
		c.ConfigHash = setup
		s.publish(c)
		seen := s.sees(these(read), these(pulled))
		require.Len(t, seen.Quarantined, 1)
		assert.Equal(t, turn.QuarantinedTool{Now: clean(pulled), Approved: ptr(clean(send))}, seen.Quarantined[0])
		assert.Equal(t, c.Hash, seen.Hash)
	}
	assert.Equal(t, []turn.QuarantinedTool{{Now: clean(pulled), Approved: ptr(clean(send))}}, s.accept("send"))
	s.sees(these(read, pulled), nil)
	_, err := s.ApproveTools(t.Context(), journal.ApproveToolsInput{Server: "mail", Tools: []string{"send"}})
	assert.ErrorIs(t, err, journal.ErrNotFound, "it is not held any more")
	assert.ErrorContains(t, err, "send")
	assert.Empty(t, s.accept(), "nothing is held, and all of it is accepted")
	_, err = s.ApproveTools(t.Context(), journal.ApproveToolsInput{Server: "none"})
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

// clean returns a descriptor as the journal returns it: text that was cut in the middle of a rune is repaired.
func clean(d turn.Descriptor) turn.Descriptor {
	d.Description = journal.CleanText(d.Description)
	return d
}

func ptr[V any](v V) *V { return &v }

func newHeld(t *testing.T, open func() *journal.DB) {
	s := newServers(t, open)
	read, shadow, third := tool("read", "1"), tool("shadow", "1"), tool("third", "1")
	s.publish(mail(read))
	s.publish(mail(read, shadow))
	seen := s.sees(these(read), these(shadow))
	assert.Nil(t, seen.Quarantined[0].Approved)

	other := mail(read, third)
	other.ConfigHash = "the operator has changed it"
	s.publish(other)
	s.sees(these(read, third), nil)
	for range 3 { // two workers with two configurations
		s.publish(mail(read, shadow))
		s.sees(these(read), these(shadow))
		more := mail(read, third, tool("fourth", "1"))
		more.ConfigHash = other.ConfigHash
		s.publish(more)
		s.sees(these(read, third), these(tool("fourth", "1")))
	}
}

func firstAfterAway(t *testing.T, open func() *journal.DB) {
	s := newServers(t, open)
	away := turn.Catalogue{Server: "mail", ConfigHash: "configured", Problem: "connection refused"}
	s.publish(away)
	s.sees(nil, nil)
	read := tool("read", "1")
	s.publish(mail(read))
	s.sees(these(read), nil)
	lastsWhileAway(s, away, read)
	s.publish(mail(read, tool("send", "1")))
	s.sees(these(read), these(tool("send", "1")))
}

// lastsWhileAway: while a server is unavailable, its last good tools stay, with the time at which it became
// unavailable. Later failures do not change that time.
func lastsWhileAway(s *servers, away turn.Catalogue, last turn.Descriptor) {
	for i := range 3 {
		away.Since = time.Unix(int64(1000+i), 0).UTC()
		away.Problem += "!"
		s.publish(away)
		c := s.sees(these(last), nil)
		assert.Equal(s, away.Problem, c.Problem)
		assert.Equal(s, time.Unix(1000, 0).UTC(), c.Since)
	}
	other := away
	other.ConfigHash = "another"
	s.publish(other)
	s.sees(nil, nil)
	s.publish(mail(last))
	assert.Zero(s, s.sees(these(last), nil).Since)
}

func staysAccepted(t *testing.T, open func() *journal.DB) {
	s := newServers(t, open)
	one, two := tool("send", "1"), tool("send", "2")
	s.publish(mail(one))
	s.publish(mail())
	s.sees(nil, nil)
	s.publish(mail(one))
	s.sees(these(one), nil)
	for range 3 { // two workers with two versions: the last one is current, and publishing approves none
		s.publish(mail(two))
		s.sees(nil, these(two))
		s.publish(mail(one))
		s.sees(these(one), nil)
	}
	s.publish(mail(two))
	s.accept("mcp/mail/send")
	for range 2 {
		s.publish(mail(one))
		s.sees(these(one), nil)
		s.publish(mail(two))
		s.sees(these(two), nil)
	}
}

func mayChange(t *testing.T, open func() *journal.DB) {
	s := newServers(t, open)
	for i := range journal.MaxApprovedVersions + 4 {
		c := mail(tool("send", fmt.Sprint(i)), tool(fmt.Sprint("new", i), "1"))
		c.AllowToolChanges = true
		s.publish(c)
		s.sees(c.Tools, nil)
	}
	last := tool("send", fmt.Sprint(journal.MaxApprovedVersions+3))
	s.publish(mail(last)) // the operator no longer trusts it
	s.sees(these(last), nil)
	s.publish(mail(tool("send", "other")))
	s.sees(nil, these(tool("send", "other")))
	s.publish(mail(tool("send", "0")))
	s.sees(nil, these(tool("send", "0")))
}

func localFree(t *testing.T, open func() *journal.DB) {
	s := newServers(t, open)
	for i := range 3 {
		changed, added := clean(tool("read", fmt.Sprint(i))), clean(tool("new", "1"))
		changed.ID, added.ID = "local/read", fmt.Sprint("local/new", i)
		c := turn.Catalogue{Server: journal.LocalServer, Hash: fmt.Sprint(i), Tools: these(changed, added)}
		s.publish(c)
		list := must(s.Catalogues(t.Context()))(t)
		assert.Equal(t, []turn.Catalogue{c}, list)
	}
}

func acceptSeen(t *testing.T, open func() *journal.DB) {
	s := newServers(t, open)
	read, send := tool("read", "1"), tool("send", "1")
	s.publish(mail(read, send))
	changed := these(tool("read", "2"), tool("send", "2"))
	s.publish(mail(changed...))
	refused := func(want error, in journal.ApproveToolsInput) {
		t.Helper()
		in.Server = "mail"
		_, err := s.ApproveTools(t.Context(), in)
		assert.ErrorIs(t, err, want)
		s.sees(nil, changed)
	}
	refused(journal.ErrNotFound, journal.ApproveToolsInput{Tools: []string{"read", "stranger"}})
	refused(journal.ErrConflict, journal.ApproveToolsInput{Tools: []string{"read"},
		Hashes: map[string]string{"read": read.Hash}})
	refused(journal.ErrConflict, journal.ApproveToolsInput{Hashes: map[string]string{"read": changed[0].Hash}})
	refused(journal.ErrConflict,
		journal.ApproveToolsInput{Hashes: map[string]string{"read": changed[0].Hash, "send": "another"}})
	out, err := s.ApproveTools(t.Context(), journal.ApproveToolsInput{Server: "mail",
		Hashes: map[string]string{"mcp/mail/read": changed[0].Hash, "send": changed[1].Hash}})
	require.NoError(t, err)
	assert.Len(t, out, 2)
	s.sees(changed, nil)
}

// ownVersions publishes the versions of workers with two configurations, one of which gets other tools later.
func ownVersions(t *testing.T, open func() *journal.DB) {
	s := newServers(t, open)
	versions := func(own string) (list []string) {
		t.Helper()
		for _, c := range must(s.OfferedBy(t.Context(), map[string]string{"mail": own}))(t) {
			list = append(list, c.Version()+" "+c.Problem)
		}
		return list
	}
	run := func(worker string, c turn.Catalogue) {
		t.Helper()
		require.NoError(t, s.ReportWorker(t.Context(), fleet.WorkerReport{ID: worker,
			Offers: map[string]string{"mail": c.Version()}}))
	}
	first, second := mail(tool("read", "1")), mail(tool("read", "2"), tool("send", "1"))
	second.ConfigHash, second.AllowToolChanges = "another", true
	s.publish(first)
	s.publish(second)
	a, b := first.Version()+" ", second.Version()+" "
	assert.Equal(t, []string{a}, versions(first.Version()), "no worker that runs offers the other one")
	assert.Equal(t, []string{b}, versions(second.Version()))
	assert.Equal(t, []string{b}, versions(""), "the latest")
	run("1", first)
	assert.Equal(t, []string{a}, versions(""))
	run("2", second)
	assert.Equal(t, []string{a, b}, versions(first.Version()), "its own first")
	assert.Equal(t, []string{b, a}, versions(second.Version()))
	assert.Equal(t, []string{b, a}, versions("unknown/"), "the latest first")

	away := turn.Catalogue{Server: "mail", ConfigHash: second.ConfigHash, Problem: "gone"}
	s.publish(away)
	assert.Equal(t, []string{a, b + "gone"}, versions(first.Version()), "an outage is one of its configuration")
	assert.Equal(t, []string{b + "gone", a}, versions(away.Version()), "a worker that has not seen the server yet")
	s.publish(second)
	assert.Equal(t, []string{b, a}, versions(second.Version()))
	require.NoError(t, s.RemoveWorker(t.Context(), "2"))
	assert.Equal(t, []string{a}, versions(""))

	for i := range 2 * journal.MaxCatalogueVersions {
		c := mail(tool("read", fmt.Sprint(i)))
		c.ConfigHash = fmt.Sprint("setup", i)
		s.publish(c)
		run(fmt.Sprint("w", i), c)
	}
	assert.Len(t, versions(""), journal.MaxCatalogueVersions)
}
