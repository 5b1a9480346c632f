#!/bin/sh
# Creates the roles and databases of Temporal and of the journal. Neither role can connect to the other's databases. The
# image of Postgres runs this once, when it creates its data; `make fleet` does the same.
set -eu
psql -v ON_ERROR_STOP=1 -q -U "$POSTGRES_USER" -d postgres <<'SQL'
\set temporal `printf %s "$TEMPORAL_DB_PASSWORD"`
\set journal `printf %s "$JOURNAL_DB_PASSWORD"`
CREATE ROLE temporal LOGIN PASSWORD :'temporal';
CREATE ROLE journal LOGIN PASSWORD :'journal';
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;
CREATE DATABASE journal OWNER journal;
REVOKE CONNECT, TEMPORARY ON DATABASE temporal, temporal_visibility, journal FROM PUBLIC;
SQL
