// Package config reads agent.toml: the agent, its model, its policy, its tool servers and its database.
//
//	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()})
//
// Values come from four layers, of which a later one overrides the earlier ones: the defaults, the file, the
// environment (EVERTURN_<SECTION>_<KEY>, for instance EVERTURN_RUNTIME_MAX_STEPS) and the command line. OPENAI_API_KEY
// and OPENAI_BASE_URL are other programs' variables: they set what the file does not set and never override it, so that
// a key meant for one provider is not sent to another. Strings in the file may hold ${VAR} and ${VAR:-default}, and
// secrets ${file:/path}; $${ is a literal ${.
//
// An unknown key, a wrong type, an unset variable and a contradiction are errors. Load reports all of them at once,
// each with its line and column and how to correct it. Secrets never appear in an error or in Show.
//
// A file can name programs that run and addresses that get keys. Load uses the file that it is given or finds: whether
// it may be trusted is the caller's decision.
package config
