// Package engine is Everturn's composition root: it builds a worker from a configuration. The worker command is a thin
// shell around it, and any Go program can embed it and add tools of its own:
//
//	cfg, err := config.Load(config.LoadOptions{Environ: os.Environ()})
//	…
//	e, err := engine.New(ctx, cfg.Config, engine.WithTool("weather", "Tells the weather of a city.", weather))
//	…
//	defer e.Close()
//	err = e.Run(ctx)
//
// Only this package passes adapters to the activities that need them.
package engine
