package deploy

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows"
)

const root = "../.."

// upcoming are settings, flags and commands that docker-compose.yml uses and that this commit's code does not have yet.
var upcoming []string

// load parses docker-compose.yml as `docker compose` does, with all profiles.
func load(t *testing.T, environ ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithEnv(environ),
		cli.WithProfiles([]string{"*"}), cli.WithResolvedPaths(true))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

// variable returns the value of a service's variable, which must be set.
func variable(t *testing.T, s types.ServiceConfig, name string) string {
	t.Helper()
	value := s.Environment[name]
	require.NotNil(t, value, "%s of %s", name, s.Name)
	return *value
}

// isOurs reports whether a service runs a program of this repository.
func isOurs(s types.ServiceConfig) bool { return s.Build != nil }

// TestVariablesAreSettings loads the configuration of each of our services with the variables of docker-compose.yml.
func TestVariablesAreSettings(t *testing.T) {
	project := load(t, "OPENAI_API_KEY=sk-test", "JOURNAL_DB_PASSWORD=secret")
	ours := 0
	for _, s := range project.Services {
		if !isOurs(s) {
			continue
		}
		ours++
		var environ []string
		for name, value := range s.Environment {
			if key := strings.TrimPrefix(name, "EVERTURN_"); !isUpcoming(key) {
				environ = append(environ, name+"="+*value)
			}
		}
		loaded, err := config.Load(config.LoadOptions{Path: emptyFile(t), Environ: environ})
		require.NoError(t, err, s.Name)
		c := loaded.Config
		assert.True(t, c.Journal.Postgres())
		assert.Equal(t, "temporal:7233", c.Temporal.Address)
		assert.Equal(t, "false", *s.Environment["TEMPORAL_TLS"], "the network of compose is not loopback")
		journal, err := url.Parse(c.Journal.URL.Reveal())
		require.NoError(t, err)
		password, _ := journal.User.Password()
		assert.Equal(t, "secret", password)
		assert.Equal(t, "postgres:5432", journal.Host)
		if s.Name == "worker" {
			assert.Equal(t, config.ProviderOpenAI, c.EffectiveLLM().Provider)
		}
	}
	assert.Equal(t, 5, ours)
}

// isUpcoming reports whether a variable without its prefix sets a key of upcoming that the code does not have.
func isUpcoming(name string) bool {
	return slices.ContainsFunc(upcoming, func(key string) bool {
		return strings.ToUpper(strings.ReplaceAll(key, ".", "_")) == name
	})
}

func emptyFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.toml")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	return file
}

// TestWithoutAKeyTheDemoModelAnswers checks that `docker compose up` needs no variable.
func TestWithoutAKeyTheDemoModelAnswers(t *testing.T) {
	worker := load(t).Services["worker"]
	loaded, err := config.Load(config.LoadOptions{Path: emptyFile(t), Environ: []string{
		"OPENAI_API_KEY=" + variable(t, worker, "OPENAI_API_KEY"),
		"OPENAI_BASE_URL=" + variable(t, worker, "OPENAI_BASE_URL"),
	}})
	require.NoError(t, err)
	assert.Equal(t, config.ProviderDemo, loaded.Config.EffectiveLLM().Provider)
	assert.Equal(t, 2, worker.GetScale())
}

// TestVersionsAreThoseOfTheTools checks that containers and `make fleet` run the same versions.
func TestVersionsAreThoseOfTheTools(t *testing.T) {
	project := load(t)
	pinned := read(t, "tools/server.mod")
	for service, module := range map[string]string{
		"temporal": "go.temporal.io/server", "temporal-schema": "go.temporal.io/server",
		"temporal-namespace": "go.temporal.io/server", "temporal-ui": "github.com/temporalio/ui-server/v2",
	} {
		_, tag, _ := strings.Cut(project.Services[service].Image, ":")
		assert.Contains(t, pinned, "\t"+module+" v"+tag+" ", service)
	}
	for name, s := range project.Services {
		_, tag, found := strings.Cut(s.Image, ":")
		assert.True(t, found && tag != "latest", "the image of %s has no version", name)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(b)
}

// TestDependenciesStart checks the order of the start: a service that is waited for must be able to meet the condition.
func TestDependenciesStart(t *testing.T) {
	project := load(t)
	for _, s := range project.Services {
		for name, dependency := range s.DependsOn {
			on := project.Services[name]
			switch dependency.Condition {
			case types.ServiceConditionHealthy:
				assert.NotNil(t, on.HealthCheck, "%s waits for the health of %s", s.Name, name)
			case types.ServiceConditionCompletedSuccessfully:
				assert.NotEqual(t, types.RestartPolicyUnlessStopped, on.Restart, "%s waits for the end of %s", s.Name, name)
			}
			assert.Subset(t, append(on.Profiles, s.Profiles...), on.Profiles)
		}
	}
	for service, on := range map[string][]string{
		"temporal-schema": {"postgres"}, "temporal": {"temporal-schema"}, "temporal-namespace": {"temporal"},
		"promote":         {"worker"},
		"journal-migrate": {"postgres"}, "worker": {"journal-migrate", "temporal-namespace"}, "temporal-ui": {"temporal"},
	} {
		assert.ElementsMatch(t, on, project.Services[service].GetDependencies(), service)
	}
}

// TestHostsAreServices checks that each address of another service names one, and a port that it listens on.
func TestHostsAreServices(t *testing.T) {
	project := load(t)
	temporal, ui := project.Services["temporal"], project.Services["temporal-ui"]
	listens := map[string]string{"postgres": "5432", "temporal": "7233"}
	assert.Equal(t, "7233", container(temporal), "the server's default FRONTEND_GRPC_PORT")
	assert.Equal(t, variable(t, ui, "TEMPORAL_UI_PORT"), container(ui))
	for _, address := range []string{
		variable(t, project.Services["worker"], "EVERTURN_TEMPORAL_ADDRESS"),
		variable(t, project.Services["temporal-namespace"], "TEMPORAL_ADDRESS"),
		variable(t, ui, "TEMPORAL_ADDRESS"),
		variable(t, temporal, "POSTGRES_SEEDS") + ":" + variable(t, temporal, "DB_PORT"),
		variable(t, project.Services["temporal-schema"], "SQL_HOST") + ":" + variable(t, project.Services["temporal-schema"],
			"SQL_PORT"),
	} {
		host, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		assert.Equal(t, listens[host], port, address)
	}
	for name, s := range project.Services {
		for _, p := range s.Ports {
			assert.Equal(t, "127.0.0.1", p.HostIP, "%s is published to other machines, and has no login", name)
		}
	}
}

// container is the port that a service publishes.
func container(s types.ServiceConfig) string {
	return strconv.FormatUint(uint64(s.Ports[0].Target), 10)
}

// TestRolesAreApart checks that Temporal and the journal have roles and passwords of their own.
func TestRolesAreApart(t *testing.T) {
	project := load(t, "TEMPORAL_DB_PASSWORD=one", "JOURNAL_DB_PASSWORD=two")
	temporal := project.Services["temporal"]
	assert.Equal(t, "temporal", variable(t, temporal, "POSTGRES_USER"))
	assert.Equal(t, "one", variable(t, temporal, "POSTGRES_PWD"))
	assert.Equal(t, "one", variable(t, project.Services["temporal-schema"], "SQL_PASSWORD"))
	assert.Equal(t, "one", variable(t, project.Services["postgres"], "TEMPORAL_DB_PASSWORD"))
	assert.Equal(t, "two", variable(t, project.Services["postgres"], "JOURNAL_DB_PASSWORD"))
	assert.NotContains(t, temporal.Environment, "JOURNAL_DB_PASSWORD")

	connections := regexp.MustCompile(`max_connections=(\d+)`).FindStringSubmatch(
		strings.Join(project.Services["postgres"].Command, " "))
	require.NotNil(t, connections)
	most, err := strconv.Atoi(connections[1])
	require.NoError(t, err)
	pools := 0
	for _, name := range []string{"SQL_MAX_CONNS", "SQL_VIS_MAX_CONNS"} {
		n, err := strconv.Atoi(variable(t, temporal, name))
		require.NoError(t, err)
		pools += 4 * n // frontend, history, matching, worker
	}
	assert.Greater(t, most, pools+100, "connections for Temporal, workers and operators")
}

// TestTheNamespaceGetsOurAttributes checks that the script creates the search attributes of turns.
func TestTheNamespaceGetsOurAttributes(t *testing.T) {
	script := read(t, "deploy/temporal/namespace.sh")
	for _, key := range workflows.SearchAttributes() {
		assert.Contains(t, script, fmt.Sprintf("--name %s --type %s", key.GetName(), key.GetValueType()))
	}
	assert.Equal(t, len(workflows.SearchAttributes()), strings.Count(script, "--name "))
}

// TestFilesAreThere checks the mounted files, and that scripts run with a shell.
func TestFilesAreThere(t *testing.T) {
	for _, s := range load(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind || filepath.Base(v.Source) == "dashboards" { // written by telemetry
				continue
			}
			assert.FileExists(t, existing(v.Source), s.Name)
		}
	}
	for _, script := range []string{"postgres/init.sh", "temporal/schema.sh", "temporal/namespace.sh"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-n", filepath.Join(root, "deploy", script)).CombinedOutput()
		require.NoError(t, err, "%s: %s", script, out)
	}
}

// existing returns a file of the path: itself, or one that every folder of this repository has.
func existing(name string) string {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		entries, err := os.ReadDir(name)
		if err == nil && len(entries) > 0 {
			return "compose_test.go"
		}
	}
	return name
}

// TestCommandsParse runs the commands of our services with the real programs: a command that the program does not know
// ends with the exit code of a usage error.
func TestCommandsParse(t *testing.T) {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "./starter", "./worker")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	image := read(t, "Dockerfile")
	programs := map[string]string{}
	for _, m := range regexp.MustCompile(`-o (/out/\S+) \./(\S+)`).FindAllStringSubmatch(image, -1) {
		programs["/usr/local/bin/"+path.Base(m[1])] = filepath.Join(bin, m[2])
	}
	require.Contains(t, image, "COPY --from=build /out/ /usr/local/bin/")
	entry := regexp.MustCompile(`ENTRYPOINT \["(\S+)"\]`).FindStringSubmatch(image)[1]
	for _, s := range load(t).Services {
		if !isOurs(s) {
			continue
		}
		command := append(slices.Clone(s.Entrypoint), s.Command...)
		if len(s.Entrypoint) == 0 {
			command = append([]string{entry}, s.Command...)
		}
		requireParses(t, programs, command)
		if s.HealthCheck != nil {
			require.Equal(t, "CMD", s.HealthCheck.Test[0], "a check needs no shell")
			requireParses(t, programs, s.HealthCheck.Test[1:])
		}
	}
}

// requireParses checks that a program of the image knows its arguments.
func requireParses(t *testing.T, programs map[string]string, command []string) {
	t.Helper()
	require.Contains(t, programs, command[0])
	args := slices.Clone(command[1:])
	if i := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(upcoming, arg) }); i >= 0 {
		args = args[:i]
	}
	out, err := exec.CommandContext(t.Context(), programs[command[0]], append(args, "--help")...).CombinedOutput()
	require.NoError(t, err, "%v: %s", command, out)
	for _, word := range args {
		if flag, found := strings.CutPrefix(word, "-"); found || !strings.Contains(word, ":") { // not an address
			assert.Contains(t, string(out), strings.TrimPrefix(flag, "-"))
		}
	}
}

// TestStopsAfterTheDrain checks that the container's grace is longer than a worker's drain: the SDK stops workflows,
// local activities and activities one after the other.
func TestStopsAfterTheDrain(t *testing.T) {
	grace := load(t).Services["worker"].StopGracePeriod
	require.NotNil(t, grace)
	assert.GreaterOrEqual(t, time.Duration(*grace), 3*config.Default().Worker.DrainTimeout+10*time.Second)
}

// TestOurContainersAreConfined checks that our containers have no privileges, and that only the tools of workers and
// commands write, and only to the workspace.
func TestOurContainersAreConfined(t *testing.T) {
	for _, s := range load(t, "EVERTURN_WORKSPACE=/srv/work", "EVERTURN_USER=501:20").Services {
		if !isOurs(s) {
			continue
		}
		assert.True(t, s.ReadOnly, s.Name)
		assert.Equal(t, "501:20", s.User, s.Name)
		assert.Equal(t, []string{"ALL"}, s.CapDrop, s.Name)
		assert.Contains(t, s.SecurityOpt, "no-new-privileges:true", s.Name)
		require.Len(t, s.Volumes, 1, s.Name)
		assert.Equal(t, "/workspace", s.Volumes[0].Target, s.Name)
		assert.Equal(t, "/srv/work", s.Volumes[0].Source, s.Name)
		assert.Equal(t, s.Name == "worker" || s.Name == "everturn", !s.Volumes[0].ReadOnly, s.Name)
	}
}

// TestKeysReachTheWorkers checks that compose passes the key of each provider that needs no block in [[providers]].
func TestKeysReachTheWorkers(t *testing.T) {
	c := config.Default()
	c.Worker.Roles = []config.Role{config.RoleTurns} // which has no keys and may name all of them
	require.Greater(t, len(c.ProviderIDs()), 5)
	for _, id := range c.ProviderIDs() {
		name := config.KeyVariable(id)
		assert.Equal(t, "secret", variable(t, load(t, name+"=secret").Services["worker"], name))
	}
}

// TestTheImageHasGit checks that the image has the program that canvases run.
func TestTheImageHasGit(t *testing.T) {
	image := read(t, "Dockerfile")
	final := image[strings.LastIndex(image, "\nFROM "):]
	assert.Regexp(t, `apt-get install [^&]*\bgit\b`, final)
}
