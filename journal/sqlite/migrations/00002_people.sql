-- What turns wait for people with, what people have allowed for good, and turns whose chunks were removed.

-- +goose Up
-- An approval's arguments stand here up to a bound; the transcript has the whole. verdict is '' while a wait is open.
CREATE TABLE waits (
  n               INTEGER PRIMARY KEY,
  session         INTEGER NOT NULL REFERENCES sessions (n),
  turn            INTEGER NOT NULL REFERENCES turns (n),
  wait_id         TEXT NOT NULL,
  kind            TEXT NOT NULL,
  step            INTEGER NOT NULL,
  tool            TEXT NOT NULL,
  arguments       TEXT,
  arguments_blob  TEXT REFERENCES blobs (hash),
  arguments_hash  TEXT NOT NULL,
  arguments_bytes INTEGER NOT NULL, -- of the whole
  risk            TEXT NOT NULL,
  why             TEXT NOT NULL,
  question        TEXT NOT NULL,
  expires_at      INTEGER NOT NULL,
  asked_at        INTEGER NOT NULL,
  verdict         TEXT NOT NULL DEFAULT '',
  allowed         INTEGER NOT NULL DEFAULT 0,
  ruled_hash      TEXT NOT NULL DEFAULT '', -- of the arguments that the person saw
  ruled_by        TEXT NOT NULL DEFAULT '',
  reason          TEXT NOT NULL DEFAULT '',
  always          TEXT NOT NULL DEFAULT '',
  ruled_at        INTEGER NOT NULL DEFAULT 0,
  UNIQUE (turn, wait_id)
) STRICT;
CREATE INDEX waits_open ON waits (session, n) WHERE verdict = '';
CREATE INDEX waits_oldest ON waits (n) WHERE verdict = '';

-- arguments_hash is '' where the rule is about any arguments.
CREATE TABLE rules (
  n              INTEGER PRIMARY KEY,
  session        INTEGER NOT NULL REFERENCES sessions (n),
  tool           TEXT NOT NULL,
  arguments_hash TEXT NOT NULL,
  ruled_by       TEXT NOT NULL,
  at             INTEGER NOT NULL,
  UNIQUE (session, tool, arguments_hash)
) STRICT;

ALTER TABLE turns ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;
CREATE INDEX turns_prunable ON turns (ended_at) WHERE pruned = 0 AND ended_at IS NOT NULL;

PRAGMA user_version = 2;
