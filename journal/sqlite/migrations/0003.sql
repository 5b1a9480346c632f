-- Schema version 3: what stands for the beginnings of transcripts in prompts. A row applies to the session's prompts from
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
  SELECT t.session, u.turn, u.step, u.attempt, u.provider, u.model, u.input_tokens, u.cached_tokens, u.cache_write_tokens,
    u.output_tokens, u.reasoning_tokens, u.cost, u.unpriced, u.estimated, u.reserved, u.at, u.day
  FROM inference_usage u JOIN turns t ON t.id = u.turn
  UNION ALL
  SELECT c.session, c.turn, 0, 0, c.provider, c.model, c.input_tokens, c.cached_tokens, c.cache_write_tokens,
    c.output_tokens, c.reasoning_tokens, c.cost, c.unpriced, c.estimated, 0, c.at, c.day
  FROM compactions c WHERE c.input_tokens > 0 OR c.output_tokens > 0 OR c.cost > 0;

-- What the running attempt of an inference has sent, by estimate; 0 until its provider begins to answer.
ALTER TABLE inferences ADD COLUMN prompt_tokens INTEGER NOT NULL DEFAULT 0;

-- What a turn that has ended has used of its limits, as JSON: turn.Spending. It is null if no workflow has said so. root is
-- the turn that the user's message began, null if this is that turn: another one began with the answer of a subagent.
ALTER TABLE turns ADD COLUMN spent TEXT;
ALTER TABLE turns ADD COLUMN root INTEGER;
CREATE INDEX turns_root ON turns (root) WHERE root IS NOT NULL;

-- The messages that a turn has accepted and leaves to the session's next turn, as JSON: turn.UserMessage. It is content.
ALTER TABLE turns ADD COLUMN left_over TEXT;

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

-- The catalogues of tool servers, one for each version that workers with different configurations or programs offer, the
-- latest last: see turn.Catalogue.Version. content is the catalogue as published, view what turns see of it.
DROP TABLE catalogues;
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

-- The running workers, as each has last reported. servers and offers are JSON. A row that is too old belongs to a worker
-- that is gone.
DROP TABLE workers;
CREATE TABLE workers (
  id         TEXT PRIMARY KEY,
  identity   TEXT NOT NULL,
  task_queue TEXT NOT NULL,
  servers    TEXT NOT NULL,
  home       TEXT NOT NULL,
  offers     TEXT NOT NULL,
  seen_at    INTEGER NOT NULL -- by clock
) STRICT, WITHOUT ROWID;
