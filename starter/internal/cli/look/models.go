package look

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// readConfig reads the turn's models, tools and temperature from its turn config. A turn that has none recorded began
// before they were, or not at all.
func (t *turnHistory) readConfig(ctx context.Context, j *journal.DB) error {
	frozen, err := j.TurnConfig(ctx, t.Turn.ID)
	if errors.Is(err, journal.ErrNotFound) || len(frozen.Config) == 0 {
		return nil
	}
	var cfg turn.Config
	if err == nil {
		err = json.Unmarshal(frozen.Config, &cfg)
	}
	t.Models, t.Tools, t.Temperature, t.Skills = cfg.Models, cfg.Policy.Only, cfg.Temperature, cfg.Skills
	return err
}

// printModels says which model a turn uses and why, and which ones would take over.
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
