// Package engine builds a worker from a configuration. The worker command is a thin shell around it, and any Go program
// can embed it and add tools of its own. This program offers a tool to its agent; check exits if its argument is an
// error:
//
//	type city struct {
//		Name string `json:"name" jsonschema:"a city's name"`
//	}
//
//	func weather(_ context.Context, in city) (string, error) { return "sunny in " + in.Name, nil }
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
//		defer stop()
//		loaded, err := config.Load(config.LoadOptions{Environ: os.Environ()}) // agent.toml
//		check(err)
//		e, err := engine.New(ctx, loaded.Config, engine.WithEnviron(os.Environ()),
//			engine.WithTool("weather", "Tells the weather of a city.", weather, engine.Repeatable()))
//		check(err)
//		defer e.Close()
//		check(e.Run(ctx))
//	}
//
// An Engine runs turns and tool calls for package client, from this process or another one. A program that is also a
// client calls client.Open with the same configuration.
//
// A turn has the tools of the worker that begins it. So a program with tools that the other workers lack needs a task
// queue of its own: [temporal] task_queue. Besides these tools, the engine offers those of the configuration, which by
// default are the ones that read the files of the working directory. [policy] allow says which of all these tools the
// model gets.
//
// The other functions of this package are for command lines: they open, create and copy the configured journal, and
// check the configured model and MCP servers.
//
// Only this package passes adapters to the activities that need them.
package engine
