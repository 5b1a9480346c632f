package look

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// readConfig reads the turn's models, tools, temperature and skills from its turn config. It does nothing for a turn
// without a recorded config: an old version of Everturn began the turn, or Begin failed.
func (t *turnHistory) readConfig(ctx context.Context, j client.Journal) error {
	frozen, err := j.TurnConfig(ctx, t.Turn.ID)
	if err != nil || len(frozen.Config) == 0 {
		return err
	}
	var cfg turn.Config
	err = json.Unmarshal(frozen.Config, &cfg)
	t.Models, t.Tools, t.Temperature, t.Skills = cfg.Models, cfg.Policy.Only, cfg.Temperature, cfg.Skills
	return err
}

// printModels prints the model of a turn, with the reason for the choice, and its fallbacks.
func printModels(w io.Writer, models []turn.Model) {
	for i, m := range models {
		switch i {
		case 0:
			fmt.Fprintf(w, "  model %s:%s · %s", app.Line(m.Provider, 60), app.Line(m.Name, 80), app.Line(m.Why, 120))
		case 1:
			fmt.Fprintf(w, " · fallback %s:%s", app.Line(m.Provider, 60), app.Line(m.Name, 80))
		default:
			fmt.Fprintf(w, ", %s:%s", app.Line(m.Provider, 60), app.Line(m.Name, 80))
		}
	}
	if len(models) > 0 {
		fmt.Fprintln(w)
	}
}
