#!/bin/sh
# Creates or upgrades Temporal's tables. It can run again. Run it with the version of the server that is to start, before
# that server starts. SQL_PLUGIN, SQL_HOST, SQL_PORT, SQL_USER and SQL_PASSWORD name the database server.
set -eu
for name in temporal/temporal temporal_visibility/visibility; do
  temporal-sql-tool --db "${name%/*}" setup-schema -v 0.0
  temporal-sql-tool --db "${name%/*}" update-schema --schema-name "postgresql/v12/${name#*/}"
done
