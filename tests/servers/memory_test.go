package servers

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := stdioServer(t, "memory", "@modelcontextprotocol/server-memory")
	server.Env = map[string]config.Secret{"MEMORY_FILE_PATH": config.Secret(filepath.Join(dir, "graph.jsonl"))}
	r := newRig(t, server)

	r.turn(
		ask("create_entities", `{"entities":[
			{"name":"Ottoline","entityType":"person","observations":["keeps the lighthouse"]},
			{"name":"Lighthouse","entityType":"building","observations":["stands on a rock"]},
			{"name":"Gull","entityType":"bird","observations":["loud"]}]}`),
		ask("create_relations", `{"relations":[
			{"from":"Ottoline","to":"Lighthouse","relationType":"keeps"},
			{"from":"Gull","to":"Lighthouse","relationType":"sits on"}]}`),
		ask("add_observations", `{"observations":[{"entityName":"Ottoline","contents":["plays the cello","has a dog"]}]}`),
		ask("delete_observations", `{"deletions":[{"entityName":"Ottoline","observations":["has a dog"]}]}`),
		ask("delete_relations", `{"relations":[{"from":"Gull","to":"Lighthouse","relationType":"sits on"}]}`),
		ask("delete_entities", `{"entityNames":["Gull"]}`),
	)
	var kept []map[string]any
	for line := range strings.Lines(read(t, dir, "graph.jsonl")) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		kept = append(kept, entry)
	}
	require.Len(t, kept, 3, "two entities and a relation are on disk")
	assert.Equal(t, []any{"keeps the lighthouse", "plays the cello"}, kept[0]["observations"])
	assert.Equal(t, "keeps", kept[2]["relationType"])

	looks := r.turn(
		ask("read_graph", ""),
		ask("search_nodes", `{"query":"cello"}`),
		ask("open_nodes", `{"names":["Lighthouse"]}`),
	)
	assert.NotContains(t, looks[0], "Gull")
	assert.Contains(t, looks[1], "Ottoline")
	assert.NotContains(t, looks[1], "stands on a rock")
	assert.Contains(t, looks[2], "stands on a rock")
	r.offersOnlyWhatWasCalled()
}
