-- Why calls ended in errors, and how far "always" goes where a person is asked.

-- +goose Up
-- code is '' where the error is the tool's own, or there was none.
ALTER TABLE calls ADD COLUMN code TEXT NOT NULL DEFAULT '';
-- widest is the widest scope that spares the session the question: '' where every one does.
ALTER TABLE waits ADD COLUMN widest TEXT NOT NULL DEFAULT '';

PRAGMA user_version = 4;
