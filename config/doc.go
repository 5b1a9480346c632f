// Package config reads agent.toml: the agent, its model, its policy, its tool servers and where its data is kept.
//
//	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()})
//
// Values come from four layers, of which a later one overrides the earlier ones: the defaults, the file, the environment
// (EVERTURN_<SECTION>_<KEY>, for instance EVERTURN_RUNTIME_MAX_STEPS) and the command line. OPENAI_API_KEY and
// OPENAI_BASE_URL are other programs' variables: they set what the file does not set and never override it, so that a
// key meant for one provider is not sent to another. Strings in the file may hold ${VAR} and ${VAR:-default}; $${ is a
// literal ${.
//
// An unknown key, a wrong type, an unset variable and a contradiction are errors. Load reports all of them at once with
// line, column and how to correct them. Secrets never appear in an error or in Show.
//
// The package imports nothing else of Everturn, so that every other package can use it.
package config
