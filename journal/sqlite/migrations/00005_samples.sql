-- What tools' servers ask the model, and what it answers them.

-- +goose Up
-- attempt is 0 until the model is asked. answer is JSON: turn.Sampled. refused is why there is none and never will be.
CREATE TABLE samples (
  n              INTEGER PRIMARY KEY,
  turn           INTEGER NOT NULL REFERENCES turns (n),
  call           INTEGER NOT NULL REFERENCES calls (n),
  sample_id      TEXT NOT NULL,
  server         TEXT NOT NULL,
  request        TEXT,
  request_blob   TEXT REFERENCES blobs (hash),
  request_hash   TEXT NOT NULL,
  free           INTEGER NOT NULL,
  attempt        INTEGER NOT NULL DEFAULT 0,
  failures       INTEGER NOT NULL DEFAULT 0,
  failed_attempt INTEGER NOT NULL DEFAULT 0,
  model          TEXT NOT NULL DEFAULT '',
  answer         TEXT,
  answer_blob    TEXT REFERENCES blobs (hash),
  refused        TEXT NOT NULL DEFAULT '',
  asked_at       INTEGER NOT NULL,
  ended_at       INTEGER NOT NULL DEFAULT 0,
  UNIQUE (turn, sample_id)
) STRICT;

PRAGMA user_version = 5;
