-- What tools' servers do in the middle of calls and after them, what they leave, and what people accept of them.

-- +goose Up
-- The attempt that was given back in the middle of the call, 0 where none was, and what the call goes on with: null where
-- it came from an import. media is JSON: turn.Media. notes counts tool_progress.
ALTER TABLE calls ADD COLUMN suspended_attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN continuation_blob TEXT REFERENCES blobs (hash);
ALTER TABLE calls ADD COLUMN media TEXT;
ALTER TABLE calls ADD COLUMN notes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN media TEXT;

-- due is the session whose model is to be told, null where there is nothing to tell or it has been told.
ALTER TABLE late_results ADD COLUMN media TEXT;
ALTER TABLE late_results ADD COLUMN due INTEGER REFERENCES sessions (n);
CREATE INDEX late_results_due ON late_results (due, n) WHERE due IS NOT NULL;

-- The blobs that calls have left: whole outputs and media. late is 1 for those that came after the settlement.
CREATE TABLE artifacts (
  session    INTEGER NOT NULL REFERENCES sessions (n),
  hash       TEXT NOT NULL REFERENCES blobs (hash),
  call       INTEGER NOT NULL REFERENCES calls (n),
  media_type TEXT NOT NULL,
  late       INTEGER NOT NULL,
  PRIMARY KEY (session, hash, call)
) STRICT, WITHOUT ROWID;
INSERT INTO artifacts (session, hash, call, media_type, late)
  SELECT t.session, b.hash, c.n, b.media_type, 0 FROM calls c JOIN turns t ON t.n = c.turn JOIN blobs b ON b.hash = c.full_blob
  UNION ALL SELECT t.session, b.hash, c.n, b.media_type, 1 FROM late_results l JOIN calls c ON c.n = l.call JOIN turns t ON t.n = c.turn
    JOIN blobs b ON b.hash = l.full_blob WHERE TRUE ON CONFLICT DO NOTHING;

-- The first mark of each session. Turn and call are names: a fork may have the mark and not the turn.
CREATE TABLE marks (
  session INTEGER PRIMARY KEY REFERENCES sessions (n),
  turn    TEXT NOT NULL,
  call_id TEXT NOT NULL,
  tool    TEXT NOT NULL,
  at      INTEGER NOT NULL
) STRICT;

-- call_id and inquiry (JSON) are those of an elicitation; reply (JSON) is what was said to it.
ALTER TABLE waits ADD COLUMN call_id TEXT NOT NULL DEFAULT '';
ALTER TABLE waits ADD COLUMN inquiry TEXT;
ALTER TABLE waits ADD COLUMN inquiry_blob TEXT REFERENCES blobs (hash);
ALTER TABLE waits ADD COLUMN reply TEXT;
ALTER TABLE waits ADD COLUMN reply_blob TEXT REFERENCES blobs (hash);

-- content is what was published, view what turns see of it; view_hash is '' where nobody has looked at it yet.
ALTER TABLE catalogue ADD COLUMN view_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE catalogue ADD COLUMN view TEXT;
ALTER TABLE catalogue ADD COLUMN view_blob TEXT REFERENCES blobs (hash);

-- The tools that are accepted as they are, with who has accepted them: '' where it was not a person.
CREATE TABLE accepted (
  n               INTEGER PRIMARY KEY,
  server          TEXT NOT NULL,
  tool            TEXT NOT NULL,
  hash            TEXT NOT NULL,
  descriptor      TEXT,
  descriptor_blob TEXT REFERENCES blobs (hash),
  accepted_by     TEXT NOT NULL,
  at              INTEGER NOT NULL,
  UNIQUE (server, tool, hash)
) STRICT;

-- The configurations that each server has been published with.
CREATE TABLE setups (
  n      INTEGER PRIMARY KEY,
  server TEXT NOT NULL,
  setup  TEXT NOT NULL,
  UNIQUE (server, setup)
) STRICT;

PRAGMA user_version = 3;
