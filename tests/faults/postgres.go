package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/tests/loopback"
)

// postgresServer is a Postgres server on a port of this machine. Each harness has a database of its own there.
type postgresServer struct {
	*pgtest.Server
	address string
}

func newPostgresServer(ctx context.Context) (*postgresServer, error) {
	port, err := loopback.Port()
	if err != nil {
		return nil, err
	}
	server, err := pgtest.New(ctx, "listen_addresses=127.0.0.1", "port="+strconv.Itoa(port), "max_connections=1000")
	if err != nil {
		return nil, err
	}
	return &postgresServer{server, fmt.Sprintf("127.0.0.1:%d", port)}, nil
}

// postgresDatabase is a database of the server. The workers reach it through a link, and the schedule directly.
type postgresDatabase struct {
	server *postgresServer
	link   *link
	name   string
	path   string // of the file that a journal in SQLite would have, beside which the workers keep their trees
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

func newPostgresDatabase(ctx context.Context, r *harness) (*postgresDatabase, error) {
	d := &postgresDatabase{server: r.programs.postgres, path: inDir(r.dir, "journal.db"),
		name: "faults_" + notInName.ReplaceAllString(filepath.Base(r.dir), "_")}
	if err := d.server.Exec(ctx, d.server.URL(), "CREATE DATABASE "+d.name); err != nil {
		return nil, fmt.Errorf("creating the harness's database: %w", err)
	}
	if _, err := postgres.Migrate(ctx, d.url()); err != nil {
		return nil, err
	}
	var err error
	if d.link, err = newLink(filepath.Base(r.dir)+"-journal", d.server.address); err != nil {
		return nil, err
	}
	r.journalLink = d.link
	r.onClose(d.link.down)
	return d, nil
}

// url is the database without the link.
func (d *postgresDatabase) url() string {
	return strings.Replace(d.server.URL(), "///postgres?", "///"+d.name+"?", 1)
}

func (d *postgresDatabase) section() string {
	return fmt.Sprintf("url = \"postgres://everturn@%s/%s?sslmode=disable\"\npath = %q\n", d.link.address(), d.name,
		d.path)
}

func (d *postgresDatabase) open(ctx context.Context) (*journal.DB, error) {
	return postgres.Open(ctx, d.url(), postgres.Options{})
}

// exec runs statements on a connection of their own.
func (d *postgresDatabase) exec(ctx context.Context, statement string) error {
	return d.server.Exec(ctx, d.url(), statement)
}

// hold runs statements on a connection that stays open until the returned function closes it.
func (d *postgresDatabase) hold(ctx context.Context, statements string) (end func() error, err error) {
	conn, err := pgx.Connect(ctx, d.url())
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return func() error { return conn.Close(ctx) }, nil
}

// lock locks the tables against writes, like a migration by hand that was left inside a transaction. A deadlock with a
// worker can end it: then it tries again.
func (d *postgresDatabase) lock(ctx context.Context) (unlock func() error, err error) {
	waited := reach(ctx, "a lock on all tables", func() bool {
		unlock, err = d.hold(ctx, "BEGIN; "+onTables(`EXECUTE format('LOCK TABLE %I IN EXCLUSIVE MODE', t);`))
		return err == nil
	})
	return unlock, errors.Join(waited, err)
}

// onTables runs a block of Postgres's procedural language for each of the journal's tables, whose name is t.
func onTables(block string) string {
	return `DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP ` +
		block + ` END LOOP; END $$;`
}

// fill makes every write fail with the error that a server with a full disk reports.
func (d *postgresDatabase) fill(ctx context.Context, _ *process) (free func() error, err error) {
	err = d.exec(ctx, `CREATE OR REPLACE FUNCTION faults_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;`+
		onTables(`EXECUTE format('CREATE TRIGGER faults_full BEFORE INSERT OR UPDATE ON %I EXECUTE FUNCTION faults_full()',
		t);`))
	return func() error {
		return d.exec(context.WithoutCancel(ctx), onTables(`EXECUTE format('DROP TRIGGER faults_full ON %I', t);`))
	}, err
}

// freeze stops the worker wherever it is: the server ends a transaction that stays idle.
func (d *postgresDatabase) freeze(_ context.Context, worker *process) error {
	worker.signal(unix.SIGSTOP)
	return nil
}

// heldLock is the advisory lock for which a transaction waits at its point.
const heldLock = 4711

// trap makes the transaction of the nth row that is inserted wait: right after the row, or while it commits. The
// returned function waits until it does, and end lets it go on.
func (d *postgresDatabase) trap(ctx context.Context, table string, nth int, atCommit bool) (held func() error,
	end func() error, err error) {
	kind := "TRIGGER"
	if atCommit {
		kind = "CONSTRAINT TRIGGER"
	}
	deferred := map[bool]string{true: "DEFERRABLE INITIALLY DEFERRED"}[atCommit]
	err = d.exec(ctx, fmt.Sprintf(`CREATE SEQUENCE faults_seen; -- not rolled back
		CREATE FUNCTION faults_point() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('faults_seen') = %d THEN PERFORM pg_advisory_xact_lock(%d); END IF; RETURN NULL; END $$;
		CREATE %s faults_point AFTER INSERT ON %s %s FOR EACH ROW EXECUTE FUNCTION faults_point()`,
		nth, heldLock, kind, table, deferred))
	if err != nil {
		return nil, nil, fmt.Errorf("planting the point: %w", err)
	}
	if end, err = d.hold(ctx, fmt.Sprintf("SELECT pg_advisory_lock(%d)", heldLock)); err != nil {
		return nil, nil, err
	}
	held = func() error {
		return d.waits(ctx, "a transaction at its point", fmt.Sprintf("objid = %d AND NOT granted", heldLock))
	}
	return held, end, nil
}

// waits waits for a lock of the database's connections.
func (d *postgresDatabase) waits(ctx context.Context, what, lock string) error {
	query := `DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE datname = current_database() AND ` + lock + `) THEN RAISE 'not yet'; END IF; END $$`
	return reach(ctx, what, func() bool { return d.exec(ctx, query) == nil })
}

func (d *postgresDatabase) insert(table string, nth int) (flags []string, act func(context.Context, *harness) error) {
	return []string{"-kill", ""}, func(ctx context.Context, r *harness) error {
		held, end, err := d.trap(ctx, table, nth, false)
		if err != nil {
			return err
		}
		err = errors.Join(r.ask(ctx), held())
		r.first().kill()
		return errors.Join(err, end())
	}
}

// dump copies the tables in binary form, in which bytes are as they were written.
func (d *postgresDatabase) dump(ctx context.Context, dir string) error {
	conn, err := pgx.Connect(ctx, d.url())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, table := range tables {
		err = errors.Join(err, writeTo(inDir(dir, "journal-"+table), func(w io.Writer) error {
			_, err := conn.PgConn().CopyTo(ctx, w, "COPY "+table+" TO STDOUT (FORMAT binary)")
			return err
		}))
	}
	return err
}

func writeTo(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
