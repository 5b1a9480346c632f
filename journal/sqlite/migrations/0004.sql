-- Schema version 4, the first that this program updates. Times are nanoseconds since 1970 in UTC, 0 for none. Hashes are
-- SHA-256 in lower-case hex. Of a pair x, x_blob one is null: content of up to 1 KiB is in x, larger content is once in
-- blobs. The columns id are row numbers; the names that callers use are in session_id, turn_id, message_id, call_id,
-- request_id and token_id.

-- One row. A program may use the journal if its schema version is at least min_program.
CREATE TABLE journal (
  id             TEXT NOT NULL, -- a UUID; in an encrypted journal sealed, with the key of its hashes: journal/encryption.go
  schema_version INTEGER NOT NULL,
  min_program    INTEGER NOT NULL
) STRICT;
INSERT INTO journal (id, schema_version, min_program) SELECT lower(format('%s-%s-4%s-%s%s-%s', hex(randomblob(4)), hex(randomblob(2)),
  substr(hex(randomblob(2)), 2), substr('89AB', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2), hex(randomblob(6)))), 4, 4;

CREATE TABLE blobs (
  id         INTEGER PRIMARY KEY,
  hash       TEXT NOT NULL UNIQUE,
  media_type TEXT NOT NULL,
  size       INTEGER NOT NULL, -- of the content, in bytes
  encoding   TEXT NOT NULL,    -- of bytes: '' or 'gzip'
  bytes      BLOB NOT NULL
) STRICT;

-- A fork has its parent's messages up to fork_seq. The session of a subagent has the session, the turn and the call that
-- started it: caller_session is a session_id, caller_turn a turn_id and caller_call a call_id. In others they are ''.
-- taken_back has the commits of its tree that the user took back, as JSON, until its model is told.
CREATE TABLE sessions (
  id             INTEGER PRIMARY KEY,
  tenant         TEXT NOT NULL,
  session_id     TEXT NOT NULL,
  agent          TEXT NOT NULL,
  parent         INTEGER REFERENCES sessions (id),
  fork_seq       INTEGER,
  head_seq       INTEGER NOT NULL DEFAULT 0,
  head_hash      TEXT NOT NULL DEFAULT '',
  turns          INTEGER NOT NULL DEFAULT 0,
  first_text     TEXT NOT NULL DEFAULT '',
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  caller_session TEXT NOT NULL DEFAULT '',
  caller_turn    TEXT NOT NULL DEFAULT '',
  caller_call    TEXT NOT NULL DEFAULT '',
  taken_back     TEXT,
  UNIQUE (tenant, session_id)
) STRICT;
CREATE INDEX sessions_tenant ON sessions (tenant, updated_at);

-- config is the turn's configuration as it began. pruned: its events were removed. spent is what a turn that has ended has
-- used of its limits, as JSON: turn.Spending; null if no workflow has said so. root is the turn that the user's message
-- began, null if this is that turn: another one began with the answer of a subagent. left_over are the messages that the
-- turn has accepted and leaves to the session's next turn, as JSON: turn.UserMessage.
CREATE TABLE turns (
  id          INTEGER PRIMARY KEY,
  turn_id     TEXT NOT NULL UNIQUE,
  session     INTEGER NOT NULL REFERENCES sessions (id),
  workflow_id TEXT NOT NULL,
  run_id      TEXT NOT NULL,
  agent       TEXT NOT NULL,
  message_id  TEXT NOT NULL,
  message_seq INTEGER NOT NULL,
  config      TEXT,
  config_blob TEXT REFERENCES blobs (hash),
  state       TEXT NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',
  code        TEXT NOT NULL DEFAULT '',
  message     TEXT NOT NULL DEFAULT '',
  answer      TEXT NOT NULL DEFAULT '',
  usage       TEXT NOT NULL DEFAULT '{}',
  steps       INTEGER NOT NULL DEFAULT 0,
  calls       INTEGER NOT NULL DEFAULT 0,
  started_at  INTEGER NOT NULL,
  ended_at    INTEGER,
  pruned      INTEGER NOT NULL DEFAULT FALSE,
  spent       TEXT,
  root        INTEGER,
  left_over   TEXT
) STRICT;
CREATE INDEX turns_session ON turns (session, id);
-- A session has at most one turn that has not ended.
CREATE UNIQUE INDEX turns_open ON turns (session) WHERE ended_at IS NULL;
CREATE INDEX turns_root ON turns (root) WHERE root IS NOT NULL;
CREATE INDEX turns_prunable ON turns (ended_at) WHERE NOT pruned AND ended_at IS NOT NULL;

CREATE TABLE messages (
  id         INTEGER PRIMARY KEY,
  session    INTEGER NOT NULL REFERENCES sessions (id),
  seq        INTEGER NOT NULL,
  hash       TEXT NOT NULL,
  message_id TEXT,
  role       TEXT NOT NULL,
  text       TEXT,
  text_blob  TEXT REFERENCES blobs (hash),
  tool_calls TEXT,
  call_id    TEXT NOT NULL DEFAULT '',
  outcome    TEXT NOT NULL DEFAULT '',
  media      TEXT, -- JSON: turn.Media
  turn       INTEGER NOT NULL REFERENCES turns (id),
  step       INTEGER NOT NULL,
  UNIQUE (session, seq)
) STRICT;
CREATE UNIQUE INDEX messages_id ON messages (session, message_id) WHERE message_id IS NOT NULL;
-- The head of a session is its last message.
CREATE TRIGGER messages_head AFTER INSERT ON messages BEGIN
  UPDATE sessions SET head_seq = NEW.seq, head_hash = NEW.hash WHERE id = NEW.session AND head_seq < NEW.seq;
END;

CREATE TABLE inferences (
  id              INTEGER PRIMARY KEY,
  turn            INTEGER NOT NULL REFERENCES turns (id),
  step            INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  released        INTEGER NOT NULL DEFAULT 0,
  failures        INTEGER NOT NULL DEFAULT 0,
  failed_attempt  INTEGER NOT NULL DEFAULT 0,
  failed_code     TEXT NOT NULL DEFAULT '',
  failed_message  TEXT NOT NULL DEFAULT '',
  emitted         INTEGER NOT NULL DEFAULT FALSE,
  model           TEXT NOT NULL,
  expect_seq      INTEGER NOT NULL,
  base_seq        INTEGER NOT NULL,
  base_hash       TEXT NOT NULL,
  head_seq        INTEGER NOT NULL DEFAULT 0,
  head_hash       TEXT NOT NULL DEFAULT '',
  completion      TEXT,
  completion_blob TEXT REFERENCES blobs (hash),
  started_at      INTEGER NOT NULL,
  settled_at      INTEGER,
  late_count      INTEGER NOT NULL DEFAULT 0,
  prompt_tokens   INTEGER NOT NULL DEFAULT 0, -- that the running attempt has sent, by estimate; 0 until its provider begins to answer
  -- The usage of the attempt that settled the step, and the day of UTC for which it counts: null if for none, as after an import.
  provider           TEXT NOT NULL DEFAULT '',
  input_tokens       INTEGER NOT NULL DEFAULT 0,
  cached_tokens      INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens      INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens   INTEGER NOT NULL DEFAULT 0,
  cost               INTEGER NOT NULL DEFAULT 0,
  unpriced           INTEGER NOT NULL DEFAULT FALSE,
  estimated          INTEGER NOT NULL DEFAULT FALSE,
  day                TEXT,
  raw_encoding    TEXT NOT NULL DEFAULT '', -- of raw: '' or 'gzip'
  raw             BLOB, -- the provider's own answer
  UNIQUE (turn, step)
) STRICT;
CREATE INDEX inferences_settled ON inferences (settled_at) WHERE day IS NOT NULL;

CREATE TABLE calls (
  id                INTEGER PRIMARY KEY,
  turn              INTEGER NOT NULL REFERENCES turns (id),
  step              INTEGER NOT NULL,
  call_id           TEXT NOT NULL,
  wire_id           TEXT NOT NULL,
  tool              TEXT NOT NULL,
  arguments         TEXT,
  arguments_blob    TEXT REFERENCES blobs (hash),
  arguments_hash    TEXT NOT NULL,
  attempt           INTEGER NOT NULL,
  claimed_attempt   INTEGER NOT NULL, -- the attempt that has the claim, 0 for none
  runs              INTEGER NOT NULL,
  repeatable        INTEGER NOT NULL,
  worker            TEXT NOT NULL,
  claimed_at        INTEGER NOT NULL,
  outcome           TEXT NOT NULL DEFAULT '',
  code              TEXT NOT NULL DEFAULT '', -- '' if the error is the tool's own, or if there is none
  text              TEXT,
  text_blob         TEXT REFERENCES blobs (hash),
  full_blob         TEXT REFERENCES blobs (hash),
  size              INTEGER NOT NULL DEFAULT 0,
  media             TEXT, -- JSON: turn.Media
  settled_attempt   INTEGER NOT NULL DEFAULT 0,
  settled_at        INTEGER,
  duration_ms       INTEGER NOT NULL DEFAULT 0,
  late_count        INTEGER NOT NULL DEFAULT 0,
  suspended_attempt INTEGER NOT NULL DEFAULT 0, -- the attempt that was suspended, 0 for none
  continuation_blob TEXT REFERENCES blobs (hash), -- null after an import
  notes             INTEGER NOT NULL DEFAULT 0, -- how many tool_progress events it has
  UNIQUE (turn, call_id)
) STRICT;
CREATE INDEX calls_open ON calls (turn) WHERE settled_at IS NULL;

-- notify_session is the session whose model is to get the result as a notice, null if there is none or it has got it.
CREATE TABLE late_results (
  id             INTEGER PRIMARY KEY,
  call           INTEGER NOT NULL REFERENCES calls (id),
  attempt        INTEGER NOT NULL,
  outcome        TEXT NOT NULL,
  text           TEXT,
  text_blob      TEXT REFERENCES blobs (hash),
  full_blob      TEXT REFERENCES blobs (hash),
  size           INTEGER NOT NULL,
  media          TEXT, -- JSON: turn.Media
  at             INTEGER NOT NULL,
  digest         TEXT NOT NULL,
  notify_session INTEGER REFERENCES sessions (id),
  UNIQUE (call, attempt, digest)
) STRICT;
CREATE INDEX late_results_notify ON late_results (notify_session, id) WHERE notify_session IS NOT NULL;

-- The blobs that calls have left: whole outputs and media. late: they came after the settlement.
CREATE TABLE artifacts (
  session    INTEGER NOT NULL REFERENCES sessions (id),
  hash       TEXT NOT NULL REFERENCES blobs (hash),
  call       INTEGER NOT NULL REFERENCES calls (id),
  media_type TEXT NOT NULL,
  late       INTEGER NOT NULL,
  PRIMARY KEY (session, hash, call)
) STRICT, WITHOUT ROWID;

-- The first taint source of each session. turn is a turn_id: a fork may have its parent's.
CREATE TABLE taint_sources (
  session INTEGER PRIMARY KEY REFERENCES sessions (id),
  turn    TEXT NOT NULL,
  call_id TEXT NOT NULL,
  tool    TEXT NOT NULL,
  at      INTEGER NOT NULL
) STRICT;

-- An approval's arguments are here up to a bound; the transcript has the whole. status is '' while a request is open.
-- elicitation and response are JSON. call_id is that of an elicitation.
-- question of an approval is JSON: turn.Beside.
CREATE TABLE requests (
  id               INTEGER PRIMARY KEY,
  session          INTEGER NOT NULL REFERENCES sessions (id),
  turn             INTEGER NOT NULL REFERENCES turns (id),
  request_id       TEXT NOT NULL,
  kind             TEXT NOT NULL,
  step             INTEGER NOT NULL,
  tool             TEXT NOT NULL,
  arguments        TEXT,
  arguments_blob   TEXT REFERENCES blobs (hash),
  arguments_hash   TEXT NOT NULL,
  arguments_bytes  INTEGER NOT NULL, -- of the whole
  risk             TEXT NOT NULL,
  why              TEXT NOT NULL,
  question         TEXT NOT NULL,
  call_id          TEXT NOT NULL DEFAULT '',
  elicitation      TEXT,
  elicitation_blob TEXT REFERENCES blobs (hash),
  max_grant        TEXT NOT NULL DEFAULT '', -- '' if every grant is possible
  expires_at       INTEGER NOT NULL,
  asked_at         INTEGER NOT NULL,
  status           TEXT NOT NULL DEFAULT '',
  allowed          INTEGER NOT NULL DEFAULT FALSE,
  decided_hash     TEXT NOT NULL DEFAULT '', -- of the arguments that were shown
  decided_by       TEXT NOT NULL DEFAULT '',
  reason           TEXT NOT NULL DEFAULT '',
  grant_scope      TEXT NOT NULL DEFAULT '',
  decided_at       INTEGER NOT NULL DEFAULT 0,
  response         TEXT,
  response_blob    TEXT REFERENCES blobs (hash),
  UNIQUE (turn, request_id)
) STRICT;
CREATE INDEX requests_open ON requests (session, id) WHERE status = '';
CREATE INDEX requests_oldest ON requests (id) WHERE status = '';

-- arguments_hash is '' if the grant is for any arguments.
CREATE TABLE grants (
  id             INTEGER PRIMARY KEY,
  session        INTEGER NOT NULL REFERENCES sessions (id),
  tool           TEXT NOT NULL,
  arguments_hash TEXT NOT NULL,
  decided_by     TEXT NOT NULL,
  at             INTEGER NOT NULL,
  UNIQUE (session, tool, arguments_hash)
) STRICT;

-- The catalogues of tool servers, one for each version that workers with different configurations or programs offer, the
-- latest last: see turn.Catalogue.Version. content is the catalogue as published, view what turns see of it.
CREATE TABLE catalogues (
  id        INTEGER PRIMARY KEY,
  server    TEXT NOT NULL,
  version   TEXT NOT NULL,
  hash      TEXT NOT NULL,
  content   TEXT NOT NULL,
  view_hash TEXT NOT NULL,
  view      TEXT NOT NULL,
  UNIQUE (server, version)
) STRICT;

-- The servers that have been published, whose rows the writers of their catalogues lock.
CREATE TABLE tool_servers (
  server TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- approved_by is '' if no person approved the tool.
CREATE TABLE approved_tools (
  id          INTEGER PRIMARY KEY,
  server      TEXT NOT NULL,
  tool        TEXT NOT NULL,
  hash        TEXT NOT NULL,
  descriptor  TEXT NOT NULL,
  approved_by TEXT NOT NULL,
  at          INTEGER NOT NULL,
  UNIQUE (server, tool, hash)
) STRICT;

-- The configurations that each server was published with.
CREATE TABLE config_versions (
  id          INTEGER PRIMARY KEY,
  server      TEXT NOT NULL,
  config_hash TEXT NOT NULL,
  UNIQUE (server, config_hash)
) STRICT;

-- Rows are small and read in index order: clustered by their key, an append touches one page.
CREATE TABLE events (
  turn    INTEGER NOT NULL REFERENCES turns (id),
  idx     INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  at      INTEGER NOT NULL,
  text    TEXT NOT NULL,
  data    TEXT,
  PRIMARY KEY (turn, idx)
) STRICT, WITHOUT ROWID;

-- The running workers, as each has last reported. servers and offers are JSON. A row that is too old belongs to a worker
-- that is gone.
CREATE TABLE workers (
  id         TEXT PRIMARY KEY,
  identity   TEXT NOT NULL,
  task_queue TEXT NOT NULL,
  servers    TEXT NOT NULL,
  home       TEXT NOT NULL,
  offers     TEXT NOT NULL,
  place      TEXT NOT NULL, -- see places; '' if sessions have no trees
  seen_at    INTEGER NOT NULL -- by clock
) STRICT, WITHOUT ROWID;

-- When a worker that keeps the trees of sessions in this place was last seen, by clock. id is that of a store: see
-- internal/workspace. worker is the worker's identity.
CREATE TABLE places (
  id      TEXT PRIMARY KEY,
  worker  TEXT NOT NULL,
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The trees of sessions, which may begin before their session. place has the tree, '' after an import and, without
-- a head, if it was dropped; epoch counts the places that have had it. head is its last commit and base the commit of the repository at which it began, '' in a
-- repository without commits. ignored are files that no commit has, as JSON: the paths of some.
CREATE TABLE trees (
  tenant     TEXT NOT NULL,
  session_id TEXT NOT NULL,
  epoch      INTEGER NOT NULL,
  place      TEXT NOT NULL,
  head       TEXT NOT NULL,
  base       TEXT NOT NULL,
  ignored    TEXT NOT NULL,
  PRIMARY KEY (tenant, session_id)
) STRICT, WITHOUT ROWID;

-- What all workers together may send to a provider or one of its models, or for a tenant. limits, usage and pause are JSON;
-- pause is '' if there is none. usage is kept while the scope has limits. Times are those of clock.
CREATE TABLE fleet_limits (
  scope      TEXT PRIMARY KEY,
  limits     TEXT NOT NULL,
  usage      TEXT NOT NULL,
  pause      TEXT NOT NULL,
  not_before INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The database's clock.
CREATE VIEW clock AS SELECT CAST(unixepoch('subsec') * 1000000000 AS INTEGER) AS now;

-- What an attempt of an inference that did not settle its step has used, or while reserved is true, the most that an
-- attempt may use. One row for each such attempt that the provider bills, as far as is known. Costs are picodollars. day is
-- that of at, in UTC.
CREATE TABLE inference_usage (
  turn               INTEGER NOT NULL REFERENCES turns (id),
  step               INTEGER NOT NULL,
  attempt            INTEGER NOT NULL,
  provider           TEXT NOT NULL,
  model              TEXT NOT NULL,
  input_tokens       INTEGER NOT NULL,
  cached_tokens      INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  output_tokens      INTEGER NOT NULL,
  reasoning_tokens   INTEGER NOT NULL,
  cost               INTEGER NOT NULL,
  unpriced           INTEGER NOT NULL,
  estimated          INTEGER NOT NULL,
  reserved           INTEGER NOT NULL,
  at                 INTEGER NOT NULL,
  day                TEXT NOT NULL,
  PRIMARY KEY (turn, step, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX inference_usage_at ON inference_usage (at);

-- The sums of what a tenant has used: in a day (2026-11-23) and a month (2026-11) of UTC, and in a session with all of its
-- subagents (session:ID). An account exists from the first inference that a budget has to allow by it.
CREATE TABLE spending (
  tenant  TEXT NOT NULL,
  account TEXT NOT NULL,
  tokens  INTEGER NOT NULL,
  cost    INTEGER NOT NULL,
  PRIMARY KEY (tenant, account)
) STRICT, WITHOUT ROWID;

-- What stands for the beginnings of transcripts in prompts. A row applies to the session's prompts from
-- the message at_seq on, until a later row follows. name is that of the inference that it preceded or of the request for
-- it, so that it is recorded once. content is JSON: turn.Compaction. The other columns repeat what is looked up or summed:
-- the columns from provider on are those of inference_usage.
CREATE TABLE compactions (
  id                 INTEGER PRIMARY KEY,
  session            INTEGER NOT NULL REFERENCES sessions (id),
  name               TEXT NOT NULL UNIQUE,
  turn               INTEGER REFERENCES turns (id), -- null if a user asked for it
  at_seq             INTEGER NOT NULL,
  content            TEXT,
  content_blob       TEXT REFERENCES blobs (hash),
  provider           TEXT NOT NULL,
  model              TEXT NOT NULL,
  input_tokens       INTEGER NOT NULL,
  cached_tokens      INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  output_tokens      INTEGER NOT NULL,
  reasoning_tokens   INTEGER NOT NULL,
  cost               INTEGER NOT NULL,
  unpriced           INTEGER NOT NULL,
  estimated          INTEGER NOT NULL,
  at                 INTEGER NOT NULL,
  day                TEXT NOT NULL
) STRICT;
CREATE INDEX compactions_session ON compactions (session, at_seq, id);
CREATE INDEX compactions_at ON compactions (at);
CREATE INDEX compactions_turn ON compactions (turn) WHERE turn IS NOT NULL;

-- What inferences and compactions have used.
CREATE VIEW used AS
  SELECT t.session, i.turn, i.step, i.attempt, i.provider, i.model, i.input_tokens, i.cached_tokens, i.cache_write_tokens,
    i.output_tokens, i.reasoning_tokens, i.cost, i.unpriced, i.estimated, 0 AS reserved, i.settled_at AS at, i.day
  FROM inferences i JOIN turns t ON t.id = i.turn WHERE i.day IS NOT NULL
  UNION ALL
  SELECT t.session, u.turn, u.step, u.attempt, u.provider, u.model, u.input_tokens, u.cached_tokens, u.cache_write_tokens,
    u.output_tokens, u.reasoning_tokens, u.cost, u.unpriced, u.estimated, u.reserved, u.at, u.day
  FROM inference_usage u JOIN turns t ON t.id = u.turn
  UNION ALL
  SELECT c.session, c.turn, 0, 0, c.provider, c.model, c.input_tokens, c.cached_tokens, c.cache_write_tokens,
    c.output_tokens, c.reasoning_tokens, c.cost, c.unpriced, c.estimated, 0, c.at, c.day
  FROM compactions c WHERE c.input_tokens > 0 OR c.output_tokens > 0 OR c.cost > 0;

-- The subagents that turns have called. turn and session are the caller's, name is the session_id of the subagent's own
-- session. granted is JSON: turn.Allowance. state is working, ended, or stopped: then its answer begins no turn.
CREATE TABLE subagents (
  call       INTEGER PRIMARY KEY REFERENCES calls (id),
  turn       INTEGER NOT NULL REFERENCES turns (id),
  session    INTEGER NOT NULL REFERENCES sessions (id),
  name       TEXT NOT NULL,
  background INTEGER NOT NULL,
  granted    TEXT NOT NULL,
  state      TEXT NOT NULL
) STRICT;
CREATE INDEX subagents_session ON subagents (session, state);
CREATE INDEX subagents_turn ON subagents (turn);

-- Bearer tokens. hash is that of the secret, which is nowhere. rights is a JSON list.
CREATE TABLE tokens (
  token_id   TEXT PRIMARY KEY,
  hash       TEXT NOT NULL UNIQUE,
  tenant     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  rights     TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_tenant ON tokens (tenant, created_at);

-- Requests over HTTP, and where their answers are. name is a hash of what the client has sent.
CREATE TABLE exchanges (
  tenant  TEXT NOT NULL,
  name    TEXT NOT NULL,
  session TEXT NOT NULL,
  message TEXT NOT NULL,
  turn    TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  body    TEXT NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX exchanges_at ON exchanges (tenant, at);
