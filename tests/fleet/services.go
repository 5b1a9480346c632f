package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal/postgres/pgtest"
)

// programs are the paths of what the fleet runs.
type programs struct{ server, ui, worker, everturn string }

// build builds the programs, which takes minutes the first time, and links those that scripts call into Dir/bin.
func (f *Fleet) build(ctx context.Context) (err error) {
	if f.state, err = load(f.options.Dir, f.options.Ports); err != nil {
		return err
	}
	if f.programs.server, err = tool(ctx, "server.mod", "go.temporal.io/server/cmd/server"); err != nil {
		return err
	}
	if f.programs.ui, err = tool(ctx, "server.mod", "github.com/temporalio/ui-server/v2/cmd/server"); err != nil {
		return err
	}
	bin := filepath.Join(f.options.Dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	for link, from := range map[string][2]string{
		"temporal-sql-tool": {"server.mod", "go.temporal.io/server/cmd/tools/sql"}, "temporal": {"temporal.mod", "temporal"},
	} {
		path, err := tool(ctx, from[0], from[1])
		if err != nil {
			return err
		}
		link = filepath.Join(bin, link)
		if err := errors.Join(os.RemoveAll(link), os.Symlink(path, link)); err != nil {
			return err
		}
	}
	if f.programs.worker, err = f.ours(ctx, f.options.Worker, "worker", "./worker"); err != nil {
		return err
	}
	f.programs.everturn, err = f.ours(ctx, f.options.Starter, "everturn", "./starter")
	return err
}

// tool builds a program of a module file in the folder tools, or finds it in Go's build cache, and returns its path.
func tool(ctx context.Context, mod, program string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=tools/"+mod, "-n", program)
	cmd.Dir = root()
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("building %s: %w: %s", program, err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// ours builds a program of this module unless it is given.
func (f *Fleet) ours(ctx context.Context, given, name, pkg string) (string, error) {
	if given != "" {
		return given, nil
	}
	path := filepath.Join(f.options.Dir, "bin", name)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", name, err, out)
	}
	return path, nil
}

// access lets the operator in on the socket, which only its owner can open, and everything else with a password.
const access = "local all,replication all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"

// startPostgres starts the database server, and creates roles and databases the first time.
func (f *Fleet) startPostgres(ctx context.Context) (err error) {
	dir := filepath.Join(f.options.Dir, "postgres")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	hba := filepath.Join(dir, "hba.conf")
	if err := os.WriteFile(hba, []byte(access), 0o644); err != nil { //nolint:gosec // no secret, for another user
		return err
	}
	settings := append([]string{"port=" + strconv.Itoa(f.state.Postgres), "hba_file=" + hba, "listen_addresses=127.0.0.1",
		"unix_socket_permissions=0700", "max_connections=300"}, f.options.Postgres...)
	if f.postgres, err = pgtest.Open(ctx, dir, settings...); err != nil {
		return fmt.Errorf("%w (root's Postgres runs as the user nobody, which must be able to reach %s)", err, dir)
	}
	marker := filepath.Join(dir, "initialized")
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	err = f.script(ctx, "postgres/init.sh", "PGHOST="+dir, "PGPORT="+strconv.Itoa(f.state.Postgres),
		"POSTGRES_USER=everturn", "TEMPORAL_DB_PASSWORD="+f.state.TemporalPassword,
		"JOURNAL_DB_PASSWORD="+f.state.JournalPassword)
	if err != nil {
		return err
	}
	return os.WriteFile(marker, nil, 0o600)
}

// script runs a script of the folder deploy with more variables.
func (f *Fleet) script(ctx context.Context, name string, environ ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(root(), "deploy", filepath.FromSlash(name)))
	path := filepath.Join(f.options.Dir, "bin") + ":" + filepath.Dir(f.postgres.Program("psql")) + ":" + os.Getenv("PATH")
	cmd.Dir, cmd.Env = f.options.Dir, append(append(os.Environ(), "PATH="+path), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running deploy/%s: %w: %s", name, err, out)
	}
	return nil
}

func (f *Fleet) schema(ctx context.Context) error {
	return f.script(ctx, "temporal/schema.sh", "SQL_PLUGIN=postgres12", "SQL_HOST=127.0.0.1",
		"SQL_PORT="+strconv.Itoa(f.state.Postgres), "SQL_USER=temporal", "SQL_PASSWORD="+f.state.TemporalPassword)
}

// startTemporal starts the server with the configuration that its image has, and waits until it answers.
func (f *Fleet) startTemporal(ctx context.Context) (err error) {
	dynamic, err := f.dynamicConfig()
	if err != nil {
		return err
	}
	cmd := exec.Command(f.programs.server, "--allow-no-auth", "start")
	cmd.Env = append(os.Environ(), "DB=postgres12", "POSTGRES_SEEDS=127.0.0.1",
		"DB_PORT="+strconv.Itoa(f.state.Postgres), "POSTGRES_USER=temporal", "POSTGRES_PWD="+f.state.TemporalPassword,
		"SQL_MAX_CONNS=10", "SQL_VIS_MAX_CONNS=4", "BIND_ON_IP=127.0.0.1", "LOG_LEVEL=warn", "FRONTEND_HTTP_PORT=0",
		"DYNAMIC_CONFIG_FILE_PATH="+dynamic,
		"FRONTEND_GRPC_PORT="+strconv.Itoa(f.state.Temporal))
	for i, name := range []string{"FRONTEND_MEMBERSHIP", "HISTORY_GRPC", "HISTORY_MEMBERSHIP", "MATCHING_GRPC",
		"MATCHING_MEMBERSHIP", "WORKER_GRPC", "WORKER_MEMBERSHIP"} {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s_PORT=%d", name, f.state.Internal[i]))
	}
	if f.temporal, err = f.spawn("temporal", cmd); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) bool {
		return f.connected(ctx, func(temporalconn.Conn) bool { return true })
	}, f.temporal)
}

// dynamicConfig returns the path of the server's dynamic configuration: that of the image with the options'.
func (f *Fleet) dynamicConfig() (string, error) {
	image := filepath.Join(root(), "deploy", "temporal", "dynamicconfig.yaml")
	if f.options.Dynamic == "" {
		return image, nil
	}
	text, err := os.ReadFile(image)
	if err != nil {
		return "", err
	}
	path := filepath.Join(f.options.Dir, "dynamicconfig.yaml")
	return path, os.WriteFile(path, append(text, "\n"+f.options.Dynamic...), 0o600)
}

// connected reports whether the server answers and what check says then.
func (f *Fleet) connected(ctx context.Context, check func(temporalconn.Conn) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := temporalconn.Dial(ctx, temporalconn.Options{Address: f.Address()})
	if err != nil {
		return false
	}
	defer c.Close()
	return check(c)
}

func (f *Fleet) namespace(ctx context.Context) error {
	return f.script(ctx, "temporal/namespace.sh", "TEMPORAL_ADDRESS="+f.Address(),
		"TEMPORAL_NAMESPACE="+temporalconn.DefaultNamespace)
}

// startUI starts the Web UI behind the proxy of --dev, which serves no web page of others.
func (f *Fleet) startUI(context.Context) error {
	hidden, err := devserver.HiddenAddress()
	if err != nil {
		return err
	}
	config := filepath.Join(f.options.Dir, "ui")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return err
	}
	text := fmt.Sprintf("temporalGrpcAddress: %s\nhost: %s\nport: %d\nenableUi: true\nhideLogs: true\n"+
		"cors:\n  cookieInsecure: true\n", f.Address(), hidden.IP, hidden.Port)
	if err := os.WriteFile(filepath.Join(config, "fleet.yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	log, err := f.open("ui-proxy.log")
	if err != nil {
		return err
	}
	if f.stopUI, err = devserver.ProxyUI(address(f.state.UI), hidden, log); err != nil {
		f.stopUI = func() {}
		return err
	}
	f.ui, err = f.spawn("ui", exec.Command(f.programs.ui, "--root", f.options.Dir, "--config", "ui", "--env", "fleet",
		"start"))
	return err
}

// agent is the agent.toml that workers and clients share.
const agent = `[temporal]
address = %q
ui_url = %q

[journal]
url = %q

%s`

// migrate writes agent.toml and creates or upgrades the journal's tables.
func (f *Fleet) migrate(ctx context.Context) error {
	text := fmt.Sprintf(agent, f.Address(), f.UIURL(), f.JournalURL(), f.options.Settings)
	if err := os.WriteFile(f.Config(), []byte(text), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, f.programs.everturn, "--config", f.Config(), "journal", "migrate")
	cmd.Dir = f.options.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
