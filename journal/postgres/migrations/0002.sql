-- Schema version 2: what each attempt of an inference has used. One row for each attempt that the provider bills, as far
-- as is known. While reserved is true, the row holds the most that the attempt may use. Costs are picodollars. day is that
-- of at, in UTC.
CREATE TABLE inference_usage (
  turn               BIGINT NOT NULL,
  step               BIGINT NOT NULL,
  attempt            BIGINT NOT NULL,
  provider           TEXT NOT NULL,
  model              TEXT NOT NULL,
  input_tokens       BIGINT NOT NULL,
  cached_tokens      BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  output_tokens      BIGINT NOT NULL,
  reasoning_tokens   BIGINT NOT NULL,
  cost               BIGINT NOT NULL,
  unpriced           BOOLEAN NOT NULL,
  estimated          BOOLEAN NOT NULL,
  reserved           BOOLEAN NOT NULL,
  at                 BIGINT NOT NULL,
  day                TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (turn, step, attempt)
);
CREATE INDEX inference_usage_at ON inference_usage (at);

-- The sums of a tenant's costs in a day (2026-11-23) and a month (2026-11) of UTC. A row exists from the first inference of
-- the period that a budget has to allow.
CREATE TABLE spending (
  tenant TEXT COLLATE "C" NOT NULL,
  period TEXT COLLATE "C" NOT NULL,
  cost   BIGINT NOT NULL,
  PRIMARY KEY (tenant, period)
);
