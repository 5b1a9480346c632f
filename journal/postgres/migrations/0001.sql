-- Schema version 1, the same tables as in SQLite. Times are nanoseconds since 1970 in UTC, 0 for none. Hashes are SHA-256 in lower-case hex. Of a pair
-- x, x_blob one is null: content of up to 1 KiB is in x, larger content is once in blobs. The columns id are row
-- numbers; the names that callers use are in session_id, turn_id, message_id, call_id and request_id. Columns that are
-- sorted or looked up are compared by bytes. Blobs have no foreign keys, whose checks would lock their rows.

-- One row. A program may use the journal if its schema version is at least min_program.
CREATE TABLE journal (
  id             TEXT NOT NULL, -- a UUID
  schema_version BIGINT NOT NULL,
  min_program    BIGINT NOT NULL
);
INSERT INTO journal (id, schema_version, min_program) VALUES (gen_random_uuid()::text, 1, 1);

CREATE TABLE blobs (
  id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hash       TEXT COLLATE "C" NOT NULL UNIQUE,
  media_type TEXT NOT NULL,
  size       BIGINT NOT NULL, -- of the content, in bytes
  encoding   TEXT NOT NULL,    -- of bytes: '' or 'gzip'
  bytes      BYTEA NOT NULL
);

-- A fork has its parent's messages up to fork_seq.
CREATE TABLE sessions (
  id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_id TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant     TEXT COLLATE "C" NOT NULL DEFAULT '',
  agent      TEXT NOT NULL,
  parent     BIGINT REFERENCES sessions (id),
  fork_seq   BIGINT,
  head_seq   BIGINT NOT NULL DEFAULT 0,
  head_hash  TEXT NOT NULL DEFAULT '',
  turns      BIGINT NOT NULL DEFAULT 0,
  first_text TEXT NOT NULL DEFAULT '',
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE INDEX sessions_updated ON sessions (updated_at);
CREATE INDEX sessions_tenant ON sessions (tenant, updated_at);

-- config is the turn's configuration as it began. pruned: its chunks were removed.
CREATE TABLE turns (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  turn_id     TEXT COLLATE "C" NOT NULL UNIQUE,
  session     BIGINT NOT NULL REFERENCES sessions (id),
  workflow_id TEXT NOT NULL,
  run_id      TEXT NOT NULL,
  agent       TEXT NOT NULL,
  message_id  TEXT COLLATE "C" NOT NULL,
  message_seq BIGINT NOT NULL,
  config      TEXT,
  config_blob TEXT,
  state       TEXT NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',
  code        TEXT NOT NULL DEFAULT '',
  message     TEXT NOT NULL DEFAULT '',
  answer      TEXT NOT NULL DEFAULT '',
  usage       TEXT NOT NULL DEFAULT '{}',
  steps       BIGINT NOT NULL DEFAULT 0,
  calls       BIGINT NOT NULL DEFAULT 0,
  started_at  BIGINT NOT NULL,
  ended_at    BIGINT,
  pruned      BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE INDEX turns_session ON turns (session, id);
-- A session has at most one turn that has not ended.
CREATE UNIQUE INDEX turns_open ON turns (session) WHERE ended_at IS NULL;
CREATE INDEX turns_prunable ON turns (ended_at) WHERE NOT pruned AND ended_at IS NOT NULL;

CREATE TABLE messages (
  id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session    BIGINT NOT NULL REFERENCES sessions (id),
  seq        BIGINT NOT NULL,
  hash       TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C",
  role       TEXT NOT NULL,
  text       TEXT,
  text_blob  TEXT,
  tool_calls TEXT,
  call_id    TEXT COLLATE "C" NOT NULL DEFAULT '',
  outcome    TEXT NOT NULL DEFAULT '',
  media      TEXT, -- JSON: turn.Media
  turn       BIGINT NOT NULL REFERENCES turns (id),
  step       BIGINT NOT NULL,
  UNIQUE (session, seq)
);
CREATE UNIQUE INDEX messages_id ON messages (session, message_id) WHERE message_id IS NOT NULL;

CREATE TABLE inferences (
  id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  turn            BIGINT NOT NULL REFERENCES turns (id),
  step            BIGINT NOT NULL,
  attempt         BIGINT NOT NULL,
  failures        BIGINT NOT NULL DEFAULT 0,
  failed_attempt  BIGINT NOT NULL DEFAULT 0,
  failed_code     TEXT NOT NULL DEFAULT '',
  failed_message  TEXT NOT NULL DEFAULT '',
  emitted         BOOLEAN NOT NULL DEFAULT FALSE,
  model           TEXT NOT NULL,
  expect_seq      BIGINT NOT NULL,
  base_seq        BIGINT NOT NULL,
  base_hash       TEXT NOT NULL,
  head_seq        BIGINT NOT NULL DEFAULT 0,
  head_hash       TEXT NOT NULL DEFAULT '',
  completion      TEXT,
  completion_blob TEXT,
  raw_blob        TEXT,
  started_at      BIGINT NOT NULL,
  settled_at      BIGINT,
  late_count      BIGINT NOT NULL DEFAULT 0,
  UNIQUE (turn, step)
);

CREATE TABLE calls (
  id                BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  turn              BIGINT NOT NULL REFERENCES turns (id),
  step              BIGINT NOT NULL,
  call_id           TEXT COLLATE "C" NOT NULL,
  wire_id           TEXT NOT NULL,
  tool              TEXT COLLATE "C" NOT NULL,
  arguments         TEXT,
  arguments_blob    TEXT,
  arguments_hash    TEXT NOT NULL,
  attempt           BIGINT NOT NULL,
  claimed_attempt   BIGINT NOT NULL, -- the attempt that has the claim, 0 for none
  runs              BIGINT NOT NULL,
  repeatable        BOOLEAN NOT NULL,
  worker            TEXT NOT NULL,
  claimed_at        BIGINT NOT NULL,
  outcome           TEXT NOT NULL DEFAULT '',
  code              TEXT NOT NULL DEFAULT '', -- '' if the error is the tool's own, or if there is none
  text              TEXT,
  text_blob         TEXT,
  full_blob         TEXT,
  size              BIGINT NOT NULL DEFAULT 0,
  media             TEXT, -- JSON: turn.Media
  settled_attempt   BIGINT NOT NULL DEFAULT 0,
  settled_at        BIGINT,
  duration_ms       BIGINT NOT NULL DEFAULT 0,
  late_count        BIGINT NOT NULL DEFAULT 0,
  suspended_attempt BIGINT NOT NULL DEFAULT 0, -- the attempt that was suspended, 0 for none
  continuation_blob TEXT, -- null after an import
  notes             BIGINT NOT NULL DEFAULT 0, -- how many tool_progress chunks it has
  UNIQUE (turn, call_id)
);
CREATE INDEX calls_open ON calls (turn) WHERE settled_at IS NULL;

-- notify_session is the session whose model is to get the result as a notice, null if there is none or it has got it.
CREATE TABLE late_results (
  id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  call           BIGINT NOT NULL REFERENCES calls (id),
  attempt        BIGINT NOT NULL,
  outcome        TEXT NOT NULL,
  text           TEXT,
  text_blob      TEXT,
  full_blob      TEXT,
  size           BIGINT NOT NULL,
  media          TEXT, -- JSON: turn.Media
  at             BIGINT NOT NULL,
  digest         TEXT NOT NULL,
  notify_session BIGINT REFERENCES sessions (id),
  UNIQUE (call, attempt, digest)
);
CREATE INDEX late_results_notify ON late_results (notify_session, id) WHERE notify_session IS NOT NULL;

-- The blobs that calls have left: whole outputs and media. late: they came after the settlement.
CREATE TABLE artifacts (
  session    BIGINT NOT NULL REFERENCES sessions (id),
  hash       TEXT COLLATE "C" NOT NULL,
  call       BIGINT NOT NULL REFERENCES calls (id),
  media_type TEXT NOT NULL,
  late       BOOLEAN NOT NULL,
  PRIMARY KEY (session, hash, call)
);

-- The first taint source of each session. turn is a turn_id: a fork may have its parent's.
CREATE TABLE taint_sources (
  session BIGINT PRIMARY KEY REFERENCES sessions (id),
  turn    TEXT NOT NULL,
  call_id TEXT COLLATE "C" NOT NULL,
  tool    TEXT COLLATE "C" NOT NULL,
  at      BIGINT NOT NULL
);

-- An approval's arguments are here up to a bound; the transcript has the whole. status is '' while a request is open.
-- elicitation and response are JSON. call_id is that of an elicitation.
CREATE TABLE requests (
  id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session          BIGINT NOT NULL REFERENCES sessions (id),
  turn             BIGINT NOT NULL REFERENCES turns (id),
  request_id       TEXT COLLATE "C" NOT NULL,
  kind             TEXT NOT NULL,
  step             BIGINT NOT NULL,
  tool             TEXT COLLATE "C" NOT NULL,
  arguments        TEXT,
  arguments_blob   TEXT,
  arguments_hash   TEXT NOT NULL,
  arguments_bytes  BIGINT NOT NULL, -- of the whole
  risk             TEXT NOT NULL,
  why              TEXT NOT NULL,
  question         TEXT NOT NULL,
  call_id          TEXT COLLATE "C" NOT NULL DEFAULT '',
  elicitation      TEXT,
  elicitation_blob TEXT,
  max_grant        TEXT NOT NULL DEFAULT '', -- '' if every grant is possible
  expires_at       BIGINT NOT NULL,
  asked_at         BIGINT NOT NULL,
  status           TEXT NOT NULL DEFAULT '',
  allowed          BOOLEAN NOT NULL DEFAULT FALSE,
  decided_hash     TEXT NOT NULL DEFAULT '', -- of the arguments that were shown
  decided_by       TEXT NOT NULL DEFAULT '',
  reason           TEXT NOT NULL DEFAULT '',
  grant_scope      TEXT NOT NULL DEFAULT '',
  decided_at       BIGINT NOT NULL DEFAULT 0,
  response         TEXT,
  response_blob    TEXT,
  UNIQUE (turn, request_id)
);
CREATE INDEX requests_open ON requests (session, id) WHERE status = '';
CREATE INDEX requests_oldest ON requests (id) WHERE status = '';

-- arguments_hash is '' if the grant is for any arguments.
CREATE TABLE grants (
  id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session        BIGINT NOT NULL REFERENCES sessions (id),
  tool           TEXT COLLATE "C" NOT NULL,
  arguments_hash TEXT NOT NULL,
  decided_by     TEXT NOT NULL,
  at             BIGINT NOT NULL,
  UNIQUE (session, tool, arguments_hash)
);

-- content is the catalogue as published, view what turns see of it.
CREATE TABLE catalogues (
  server    TEXT COLLATE "C" PRIMARY KEY,
  hash      TEXT COLLATE "C" NOT NULL,
  content   TEXT NOT NULL,
  view_hash TEXT NOT NULL,
  view      TEXT NOT NULL
);

-- approved_by is '' if no person approved the tool.
CREATE TABLE approved_tools (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  server      TEXT COLLATE "C" NOT NULL,
  tool        TEXT COLLATE "C" NOT NULL,
  hash        TEXT COLLATE "C" NOT NULL,
  descriptor  TEXT NOT NULL,
  approved_by TEXT NOT NULL,
  at          BIGINT NOT NULL,
  UNIQUE (server, tool, hash)
);

-- The configurations that each server was published with.
CREATE TABLE config_versions (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  server      TEXT COLLATE "C" NOT NULL,
  config_hash TEXT NOT NULL,
  UNIQUE (server, config_hash)
);

CREATE TABLE chunks (
  turn    BIGINT NOT NULL REFERENCES turns (id),
  idx     BIGINT NOT NULL,
  step    BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  kind    TEXT NOT NULL,
  at      BIGINT NOT NULL,
  text    TEXT NOT NULL,
  data    TEXT,
  PRIMARY KEY (turn, idx)
);
