// Package config is agent.toml: what an agent is, which model answers, what it may do and where things are kept.
//
//	loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()})
//
// Values come from four layers, a later one winning: the defaults, the file, the environment (EVERTURN_<SECTION>_<KEY>,
// for instance EVERTURN_RUNTIME_MAX_STEPS) and the command line. OPENAI_API_KEY and OPENAI_BASE_URL are other programs'
// variables: they fill in what the file leaves open and never override it, so that a key meant for one provider is not
// sent to another. Strings in the file may hold ${VAR} and ${VAR:-default}; $${ is a literal ${.
//
// Nothing is guessed: an unknown key, a wrong type, an unset variable and a contradiction are errors, all of them
// reported at once with line, column and what to do. Secrets never appear in an error or in Show.
//
// The package imports nothing else of Everturn, so that every other package may be configured by it.
package config
