package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTaskQueues(t *testing.T) {
	for text, want := range map[string]string{
		"": "everturn-inference-demo",
		"[llm]\nprovider = \"openai\"\napi_key = \"k\"":                              "everturn-inference-openai",
		"[llm]\nbase_url = \"http://127.0.0.1:11434/v1\"":                            "everturn-inference-127.0.0.1:11434",
		"[temporal]\ntask_queue = \"q\"\n[llm]\nbase_url = \"https://llm.example/\"": "q-inference-llm.example",
	} {
		loaded, err := Load(LoadOptions{Path: write(t, text)})
		require.NoError(t, err)
		assert.Equal(t, want, loaded.Config.Queue(RoleInference))
	}
	c := Default()
	assert.Equal(t, "everturn", c.Queue(RoleTurns))
	assert.Equal(t, "everturn-tools", c.Queue(RoleTools))
	assert.Equal(t, "everturn-tools-browser", c.ServerQueue("browser"))
	assert.Empty(t, c.ServerQueue(""))
	c.Worker.HealthAddress = ":8081"
	assert.Equal(t, "127.0.0.1:8081", c.Worker.HealthListen(), "other machines are served only if the operator says so")
}

func TestTheVersionOfTheWorkerController(t *testing.T) {
	environ := []string{"TEMPORAL_DEPLOYMENT_NAME=cluster/agents", "TEMPORAL_WORKER_BUILD_ID=v1"}
	loaded, err := Load(LoadOptions{Path: write(t, ""), Environ: environ})
	require.NoError(t, err)
	assert.Equal(t, "cluster/agents", loaded.Config.Worker.Deployment)
	loaded, err = Load(LoadOptions{Path: write(t, "[worker]\ndeployment = \"mine\""), Environ: environ})
	require.NoError(t, err)
	assert.Equal(t, "mine", loaded.Config.Worker.Deployment)
}

func TestRolesThatCannotWork(t *testing.T) {
	const server = "[[mcp.servers]]\nid = \"a\"\ncommand = \"x\"\n"
	for text, key := range map[string]string{
		"[worker]\nroles = []":                 "worker.roles",
		"[worker]\nroles = [\"turn\"]":         "worker.roles[0]",
		"[worker]\nroles = [\"turns\"]":        "worker.roles",
		"[worker]\nhealth_address = \"8081\"":  "worker.health_address",
		"[worker]\ndeployment = \"agents.v1\"": "worker.deployment",
		"[worker]\nroles = [\"browser\"]":      "worker.roles[0]",
		server + "queue = \"tools\"":           "mcp.servers[0].queue",
		server + "queue = \"two words\"":       "mcp.servers[0].queue",
	} {
		_, err := Load(LoadOptions{Path: write(t, text)})
		var e *Error
		require.ErrorAs(t, err, &e, text)
		require.Len(t, e.Problems, 1, text)
		assert.Equal(t, key, e.Problems[0].Key)
	}
	for _, text := range []string{
		"[llm]\nprovider = \"demo\"\n[worker]\nroles = [\"turns\"]",
		"[worker]\nroles = [\"inference\", \"tools\"]",
		"[worker]\nhealth_address = \":8081\"",
		server + "queue = \"browser\"\n[worker]\nroles = [\"browser\"]",
	} {
		_, err := Load(LoadOptions{Path: write(t, text)})
		assert.NoError(t, err, text)
	}
}
