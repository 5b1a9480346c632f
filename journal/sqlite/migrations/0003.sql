-- Schema version 3: what stands for the beginnings of transcripts in prompts. A row applies to the session's prompts from
-- the message at_seq on, until a later row follows. name is that of the inference that it preceded or of the request for
-- it, so that it is recorded once. content is JSON: turn.Condensation. The other columns repeat what is looked up or summed:
-- the columns from provider on are those of inference_usage.
CREATE TABLE condensations (
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
CREATE INDEX condensations_session ON condensations (session, at_seq, id);
CREATE INDEX condensations_at ON condensations (at);
CREATE INDEX condensations_turn ON condensations (turn) WHERE turn IS NOT NULL;

-- What inferences and condensations have used.
CREATE VIEW used AS
  SELECT t.session, u.turn, u.step, u.attempt, u.provider, u.model, u.input_tokens, u.cached_tokens, u.cache_write_tokens,
    u.output_tokens, u.reasoning_tokens, u.cost, u.unpriced, u.estimated, u.reserved, u.at, u.day
  FROM inference_usage u JOIN turns t ON t.id = u.turn
  UNION ALL
  SELECT c.session, c.turn, 0, 0, c.provider, c.model, c.input_tokens, c.cached_tokens, c.cache_write_tokens,
    c.output_tokens, c.reasoning_tokens, c.cost, c.unpriced, c.estimated, 0, c.at, c.day
  FROM condensations c WHERE c.input_tokens > 0 OR c.output_tokens > 0 OR c.cost > 0;

-- What the running attempt of an inference has sent, by estimate; 0 until its provider begins to answer.
ALTER TABLE inferences ADD COLUMN prompt_tokens INTEGER NOT NULL DEFAULT 0;
