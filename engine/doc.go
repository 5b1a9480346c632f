// Package engine is Everturn's composition root: it builds a worker out of a configuration. The worker command is a thin
// shell around it, and any Go program can embed it with tools of its own:
//
//	cfg, err := config.Load(config.LoadOptions{Environ: os.Environ()})
//	…
//	e, err := engine.New(ctx, cfg.Config, engine.WithTool("weather", "Tells the weather of a city.", weather))
//	…
//	defer e.Close()
//	err = e.Run(ctx)
//
// Here, and nowhere else, adapters are given to the activities that need them.
package engine
