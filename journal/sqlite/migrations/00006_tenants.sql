-- The sessions of one tenant, the latest first.

-- +goose Up
CREATE INDEX sessions_tenant ON sessions (tenant, updated_at);

PRAGMA user_version = 6;
