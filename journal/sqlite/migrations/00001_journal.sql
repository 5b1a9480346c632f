-- Times are nanoseconds since 1970 in UTC, 0 for none. Hashes are SHA-256 in lower-case hex. Of a pair x, x_blob one
-- is null: content of up to 1 KiB stands in x, larger content once in blobs.

-- +goose Up
CREATE TABLE blobs (
  n          INTEGER PRIMARY KEY,
  hash       TEXT NOT NULL UNIQUE,
  media_type TEXT NOT NULL,
  size       INTEGER NOT NULL, -- of the content, in bytes
  encoding   TEXT NOT NULL,    -- how bytes holds it: '' as it is, 'gzip'
  bytes      BLOB NOT NULL
) STRICT;

-- parent and fork_seq are for sessions that begin in the middle of another one: its messages up to fork_seq are theirs.
CREATE TABLE sessions (
  n          INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  tenant     TEXT NOT NULL DEFAULT '',
  agent      TEXT NOT NULL,
  parent     INTEGER REFERENCES sessions (n),
  fork_seq   INTEGER,
  head_seq   INTEGER NOT NULL DEFAULT 0,
  head_hash  TEXT NOT NULL DEFAULT '',
  turns      INTEGER NOT NULL DEFAULT 0,
  first_text TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_updated ON sessions (updated_at);

CREATE TABLE turns (
  n           INTEGER PRIMARY KEY,
  id          TEXT NOT NULL UNIQUE,
  session     INTEGER NOT NULL REFERENCES sessions (n),
  workflow_id TEXT NOT NULL,
  run_id      TEXT NOT NULL,
  agent       TEXT NOT NULL,
  message_id  TEXT NOT NULL,
  message_seq INTEGER NOT NULL,
  pins        TEXT,
  pins_blob   TEXT REFERENCES blobs (hash),
  state       TEXT NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',
  code        TEXT NOT NULL DEFAULT '',
  message     TEXT NOT NULL DEFAULT '',
  answer      TEXT NOT NULL DEFAULT '',
  usage       TEXT NOT NULL DEFAULT '{}',
  cost        TEXT NOT NULL DEFAULT '',
  steps       INTEGER NOT NULL DEFAULT 0,
  calls       INTEGER NOT NULL DEFAULT 0,
  started_at  INTEGER NOT NULL,
  ended_at    INTEGER
) STRICT;
CREATE INDEX turns_session ON turns (session, n);
-- A session has at most one turn that is not over.
CREATE UNIQUE INDEX turns_open ON turns (session) WHERE ended_at IS NULL;

CREATE TABLE messages (
  n          INTEGER PRIMARY KEY,
  session    INTEGER NOT NULL REFERENCES sessions (n),
  seq        INTEGER NOT NULL,
  hash       TEXT NOT NULL,
  message_id TEXT,
  role       TEXT NOT NULL,
  text       TEXT,
  text_blob  TEXT REFERENCES blobs (hash),
  tool_calls TEXT,
  call_id    TEXT NOT NULL DEFAULT '',
  outcome    TEXT NOT NULL DEFAULT '',
  turn       INTEGER NOT NULL REFERENCES turns (n),
  step       INTEGER NOT NULL,
  UNIQUE (session, seq)
) STRICT;
CREATE UNIQUE INDEX messages_id ON messages (session, message_id) WHERE message_id IS NOT NULL;

CREATE TABLE inferences (
  n              INTEGER PRIMARY KEY,
  turn           INTEGER NOT NULL REFERENCES turns (n),
  step           INTEGER NOT NULL,
  attempt        INTEGER NOT NULL,
  failures       INTEGER NOT NULL DEFAULT 0,
  failed_attempt INTEGER NOT NULL DEFAULT 0,
  failed_code    TEXT NOT NULL DEFAULT '',
  failed_message TEXT NOT NULL DEFAULT '',
  emitted        INTEGER NOT NULL DEFAULT 0,
  model          TEXT NOT NULL,
  expect_seq     INTEGER NOT NULL,
  base_seq       INTEGER NOT NULL,
  base_hash      TEXT NOT NULL,
  head_seq       INTEGER NOT NULL DEFAULT 0,
  head_hash      TEXT NOT NULL DEFAULT '',
  answer         TEXT,
  answer_blob    TEXT REFERENCES blobs (hash),
  raw_blob       TEXT REFERENCES blobs (hash),
  started_at     INTEGER NOT NULL,
  settled_at     INTEGER,
  late           INTEGER NOT NULL DEFAULT 0,
  UNIQUE (turn, step)
) STRICT;

CREATE TABLE calls (
  n               INTEGER PRIMARY KEY,
  turn            INTEGER NOT NULL REFERENCES turns (n),
  step            INTEGER NOT NULL,
  call_id         TEXT NOT NULL,
  wire_id         TEXT NOT NULL,
  tool            TEXT NOT NULL,
  arguments       TEXT,
  arguments_blob  TEXT REFERENCES blobs (hash),
  arguments_hash  TEXT NOT NULL,
  attempt         INTEGER NOT NULL,
  -- the attempt whose claim stands; 0 where none does
  granted_attempt INTEGER NOT NULL,
  runs            INTEGER NOT NULL,
  repeatable      INTEGER NOT NULL,
  worker          TEXT NOT NULL,
  claimed_at      INTEGER NOT NULL,
  outcome         TEXT NOT NULL DEFAULT '',
  text            TEXT,
  text_blob       TEXT REFERENCES blobs (hash),
  full_blob       TEXT REFERENCES blobs (hash),
  size            INTEGER NOT NULL DEFAULT 0,
  settled_attempt INTEGER NOT NULL DEFAULT 0,
  settled_at      INTEGER,
  duration_ms     INTEGER NOT NULL DEFAULT 0,
  late            INTEGER NOT NULL DEFAULT 0,
  UNIQUE (turn, call_id)
) STRICT;
CREATE INDEX calls_open ON calls (turn) WHERE settled_at IS NULL;

CREATE TABLE late_results (
  n         INTEGER PRIMARY KEY,
  call      INTEGER NOT NULL REFERENCES calls (n),
  attempt   INTEGER NOT NULL,
  outcome   TEXT NOT NULL,
  text      TEXT,
  text_blob TEXT REFERENCES blobs (hash),
  full_blob TEXT REFERENCES blobs (hash),
  size      INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  digest    TEXT NOT NULL,
  UNIQUE (call, attempt, digest)
) STRICT;

CREATE TABLE catalogue (
  server       TEXT PRIMARY KEY,
  hash         TEXT NOT NULL,
  content      TEXT,
  content_blob TEXT REFERENCES blobs (hash)
) STRICT, WITHOUT ROWID;

-- Rows are small and read in index order: clustered by their key, an append touches one page.
CREATE TABLE chunks (
  turn    INTEGER NOT NULL REFERENCES turns (n),
  idx     INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  at      INTEGER NOT NULL,
  text    TEXT NOT NULL,
  data    TEXT,
  PRIMARY KEY (turn, idx)
) STRICT, WITHOUT ROWID;

-- "evtn": says that the file is a journal. user_version is the schema's version; each migration sets it.
PRAGMA application_id = 1702261870;
PRAGMA user_version = 1;
