package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Every input and update has a maximum size, and every number in it a maximum. If the server rejects a command, such as
// an activity with a negative timeout or an input over 2 MiB, the workflow task fails and is retried without end, and
// the run cannot even be stopped.

const (
	// maxInput bounds the input of a turn, in bytes of JSON as this package writes it. It is the server's payload
	// limit. An accepted input can exceed it only when it is written again, because "<" and similar characters then
	// take six bytes each.
	maxInput = 2 << 20
	// minTaskTimeout is the shortest workflow task timeout in which a short local activity is sure to finish. With a
	// shorter one a turn repeats its first workflow task without end.
	minTaskTimeout = time.Second
	// maxAgent bounds an agent's name, in bytes, because it is a search attribute.
	maxAgent = 200
)

// bound returns the input, or an input that check rejects if it exceeds a bound. The run then does not hold or repeat
// the data that is too large.
func (in Input) bound(ctx workflow.Context) Input {
	if refusal := in.checkBounds(workflow.GetInfo(ctx)); refusal != nil {
		return Input{Tenant: in.Tenant, refusal: refusal}
	}
	return in
}

// checkBounds returns why the run may not begin, or nil: its input could not be read, exceeds a bound, or has fields
// that only the workflow may set. Only a run that another run has continued as new may have them. Such an input is not
// measured again, because the earlier run's was, but its limits are checked: any workflow of a client can continue as a
// turn with a progress of its own, and invalid timeouts would fail each workflow task without end.
func (in Input) checkBounds(info *workflow.Info) *turn.Error {
	// Runs of a client's cron schedule or retry policy have ContinuedExecutionRunID, too, but begin with the client's
	// input.
	continued := info.ContinuedExecutionRunID != "" && info.CronSchedule == "" && info.Attempt <= 1
	switch {
	case in.refusal != nil: // from UnmarshalJSON
		return in.refusal
	case !continued && (in.Continued != nil || in.Turn != ""):
		return invalid("continued and turn are for the workflow itself; leave them out of the input")
	case in.Continued == nil:
		return checkStart(info, in.Agent, in, maxInput)
	}
	if err := in.Continued.Config.Limits.Validate(); err != nil {
		return invalid("%s", err.Error())
	}
	return nil
}

// checkBounds returns an error if the input exceeds a bound, or if a client has set Since. It returns nil otherwise.
func (in DeliverInput) checkBounds(info *workflow.Info) *turn.Error {
	if !in.Since.IsZero() && info.ContinuedExecutionRunID == "" {
		return invalid("since is for the workflow itself; leave it out of the input")
	}
	return checkStart(info, in.Agent, in, maxRecorded) // the input of HandOver repeats it
}

// checkStart rejects a workflow that could not run: its workflow task timeout is too short, its agent's name too long,
// or its input larger than maxBytes as JSON.
func checkStart(info *workflow.Info, agent string, in any, maxBytes int) *turn.Error {
	if info.WorkflowTaskTimeout < minTaskTimeout {
		return invalid("the workflow task timeout is %s; the minimum is %s", info.WorkflowTaskTimeout, minTaskTimeout)
	}
	if err := checkAgent(agent); err != nil {
		return err
	}
	return checkSize("input", in, maxBytes)
}

// checkAgent rejects an agent's name that is too long.
func checkAgent(name string) *turn.Error {
	if len(name) > maxAgent {
		return invalid("the agent's name is %d bytes; the maximum is %d", len(name), maxAgent)
	}
	return nil
}

// checkSize rejects a value that is larger than maxBytes as JSON. The error calls the value what.
func checkSize(what string, v any, maxBytes int) *turn.Error {
	b, err := json.Marshal(v)
	if err != nil {
		return invalid("the %s cannot be written as JSON: %s", what, turn.Truncate(err.Error(), 200))
	}
	if len(b) > maxBytes {
		return invalid("the %s is %d bytes as JSON; the maximum is %d", what, len(b), maxBytes)
	}
	return nil
}

// UnmarshalJSON reads a DeliverInput. If the JSON is invalid, it returns an input that check rejects: see the method of
// Input for the reason. It ignores unknown fields.
func (in *DeliverInput) UnmarshalJSON(b []byte) error {
	type plain DeliverInput
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		p = plain{refusal: invalid("the input cannot be read: %s", turn.Truncate(fmt.Sprint(err), 200))}
	}
	*in = DeliverInput(p)
	return nil
}
