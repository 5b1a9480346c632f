-- Schema version 2: what each attempt of an inference has used. One row for each attempt that the provider bills, as far
-- as is known. While reserved is true, the row holds the most that the attempt may use. Costs are picodollars. day is that
-- of at, in UTC.
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

-- The sums of a tenant's costs in a day (2026-11-23) and a month (2026-11) of UTC. A row exists from the first inference of
-- the period that a budget has to allow.
CREATE TABLE spending (
  tenant TEXT NOT NULL,
  period TEXT NOT NULL,
  cost   INTEGER NOT NULL,
  PRIMARY KEY (tenant, period)
) STRICT, WITHOUT ROWID;
