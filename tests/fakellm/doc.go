// Package fakellm is a model provider for tests: a server that speaks OpenAI's Chat Completions and Responses and
// Anthropic's Messages over real HTTP, streams real server-sent events, and answers as a script says. It refuses
// requests that the vendors would refuse.
//
//	gate := fakellm.NewGate()
//	s := fakellm.Start(t, fakellm.Steps(
//		fakellm.Call("local_read_file", `{"path":"a.txt"}`),
//		fakellm.Text("The file says hello.").Hold(2, gate),
//	))
//	... use s.URL() as base_url ...
//	<-gate.Reached()
//	gate.Release()
//	require.Len(t, s.Requests(), 2)
//
// A script picks a Reply for each request. Steps picks by how often the model has answered since the user's last
// message, so a retried request gets the same reply; Attempts picks by how often exactly this request came before.
//
// The server keeps its own ledger of every request: its bytes, how it was answered, and whether the whole answer got
// out. It shares no code with the product, so its counts are evidence.
package fakellm
