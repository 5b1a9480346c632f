// Package fleet runs the services of docker-compose.yml as processes of this machine: Postgres, Temporal with its
// schema, namespace and Web UI, the journal's migration, and workers that share one agent.toml. It uses the scripts and
// the settings of the server that the containers use (the folder deploy).
//
//	f, err := fleet.Start(ctx, fleet.Options{Dir: dir, Workers: 2, Progress: os.Stderr})
//	// ... everturn --config f.Config() run "hello"
//	err = f.Close()
package fleet
