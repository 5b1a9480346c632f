package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/docs"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) eventsCommand() *cobra.Command {
	return parent("events", "Describe the events of -o jsonl", &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of a line of -o jsonl",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(docs.EventsSchema)
			return err
		},
	})
}

// closing writes a turn_completed event if the journal has none for the turn, so that every stream ends with one.
func (v *view) closing(r workflows.Result, index int64) error {
	data, err := json.Marshal(turn.DoneChunk{State: r.State, FinishReason: r.FinishReason, Message: r.Message,
		Usage: r.Usage, Steps: r.Steps, ToolCalls: r.ToolCalls})
	if err != nil {
		return fmt.Errorf("encoding the last event: %w", err)
	}
	return writeJSON(v.app.out, event{Version: workflows.WireVersion, Chunk: turn.Chunk{
		Turn: r.Turn, Index: index, Step: r.Steps, Kind: turn.ChunkTurnCompleted, At: time.Now().UTC(), Data: data,
	}})
}
