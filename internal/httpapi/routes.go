package httpapi

import (
	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// The rights, by shorter names for the table.
const (
	read       = client.RightRead
	send       = client.RightSend
	decides    = client.RightDecide
	administer = client.RightAdminister
)

// routes are all routes. A route that changes something may be called again after an error: a message counts once under
// its ID, and the first decision on a request stands.
var routes = []route{
	reply("GET", "/v1/sessions", read, "List sessions, the most recently used first", (*call).listSessions),
	reply("GET", "/v1/sessions/{session}", read, "Get a session, and what it does now", (*call).getSession),
	reply("GET", "/v1/sessions/{session}/history", read, "Get a session with its messages, turns, calls and requests",
		(*call).getHistory),
	reply("GET", "/v1/sessions/{session}/messages", read, "List the messages of a session", (*call).listMessages),
	reply("POST", "/v1/sessions/{session}/messages", send, "Send a message: it starts a turn, or is merged into the "+
		"running one", (*call).sendMessage).accepted(),
	write("GET", "/v1/sessions/{session}/events", read, "Stream the events of a session, from any event on",
		(*call).streamEvents).streams(turn.Event{}),
	reply("GET", "/v1/sessions/{session}/turns/{turn}", read, "Get a turn and its result, or wait for its end",
		(*call).getTurn),
	reply("POST", "/v1/sessions/{session}/stop", send, "Stop the running turn and the subagents in the background; "+
		"what was done so far is kept", (*call).stop).accepted(),
	reply("POST", "/v1/sessions/{session}/fork", send, "Create a session that shares the messages up to one of them",
		(*call).fork).created(),
	reply("POST", "/v1/sessions/{session}/compact", send, "Compact the conversation for the prompts from now on",
		(*call).compact),
	write("GET", "/v1/sessions/{session}/export", read, "Export a session, as everturn export does",
		(*call).export).of("application/jsonl"),
	reply("GET", "/v1/requests", read, "List the open requests of all sessions, the oldest first", (*call).listRequests),
	reply("GET", "/v1/sessions/{session}/requests", read, "List the open requests of a session and of its subagents",
		(*call).listSessionRequests),
	reply("POST", "/v1/sessions/{session}/turns/{turn}/requests/{request}", decides, "Decide about a request: allow or "+
		"deny a call, answer a question, respond to an elicitation", (*call).decide),
	reply("POST", "/v1/sessions/{session}/turns/{turn}/calls/{call}/result", send, "Send the result of a call of a "+
		"client tool: the first one counts", (*call).settleCall),
	reply("GET", "/v1/usage", read, "Get the usage and the costs", (*call).usage),
	reply("GET", "/v1/agents", read, "List the agents of the server's configuration", (*call).listAgents),
	reply("GET", "/v1/tools", read, "List the tools that workers have published", (*call).listTools),
	reply("GET", "/v1/workers", read, "List the running workers, with their MCP servers", (*call).listWorkers),
	reply("GET", "/v1/limits", read, "List the fleet limits and what is used of them", (*call).listLimits),
	reply("PUT", "/v1/limits/{scope}", administer, "Set limits of a provider, a model or a tenant", (*call).setLimits),
	reply("POST", "/v1/limits/{scope}/pause", administer, "Pause a provider, a model or a tenant", (*call).pause),
	reply("POST", "/v1/limits/{scope}/resume", administer, "End a pause", (*call).resume),
	reply("GET", "/v1/schedules", read, "List the schedules", (*call).listSchedules),
	reply("POST", "/v1/schedules", send, "Create a schedule", (*call).createSchedule).created(),
	reply("GET", "/v1/schedules/{schedule}", read, "Get a schedule with its latest runs", (*call).getSchedule),
	reply("DELETE", "/v1/schedules/{schedule}", send, "Delete a schedule; its sessions remain", (*call).deleteSchedule),
	reply("POST", "/v1/schedules/{schedule}/pause", send, "Pause a schedule", (*call).pauseSchedule),
	reply("POST", "/v1/schedules/{schedule}/resume", send, "Resume a paused schedule", (*call).resumeSchedule),
	reply("POST", "/v1/schedules/{schedule}/trigger", send, "Run a schedule now, besides its times",
		(*call).triggerSchedule),
	write("POST", "/v1/chat/completions", send, "Answer a Chat Completion of OpenAI's API with a turn",
		(*call).chat).returns(chatCompletion{}).streams(chatCompletion{}),
	write("POST", "/v1/responses", send, "Answer a request of OpenAI's Responses with a turn",
		(*call).createResponse).streams(object{}),
	write("GET", "/v1/responses/{response}", read, "Get a response, or stream it from any event on",
		(*call).getResponse).streams(object{}),
	reply("DELETE", "/v1/responses/{response}", send, "Delete a response; its session remains", (*call).deleteResponse),
	write("POST", "/v1/responses/{response}/cancel", send, "Stop the turn of a response",
		(*call).cancelResponse).of("application/json"),
	reply("GET", "/v1/responses/{response}/input_items", read, "List the input of a response", (*call).listInputItems),
	reply("POST", "/v1/conversations", send, "Get an ID for a new session, as OpenAI's conversations have it",
		(*call).createConversation),
	reply("GET", "/v1/models", read, "List the agents as models", (*call).listModels),
	reply("GET", "/v1/models/{model...}", read, "Get an agent as a model", (*call).getModel),
	reply("GET", "/healthz", "", "Say that the server answers", (*call).healthz),
	reply("GET", "/readyz", "", "Say whether Temporal and the journal answer", (*call).readyz),
	reply("GET", "/openapi.json", "", "Get this document", (*call).openAPI),
}
