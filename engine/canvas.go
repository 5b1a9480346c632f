package engine

import (
	"context"

	"github.com/everturn/everturn/internal/canvas"
)

// canvas returns the repository of the sessions' canvases, or nil if none is configured.
func (e *Engine) canvas(ctx context.Context) (*canvas.Repo, error) {
	if e.cfg.Canvas.Repo == "" {
		return nil, nil //nolint:nilnil // there need not be one
	}
	return canvas.Open(ctx, e.cfg.Canvas.Repo, e.cfg.Canvas.Branch)
}
