package engine

import (
	"context"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/canvas"
)

// Canvas returns the repository of the sessions' canvases, or nil if none is configured.
func Canvas(ctx context.Context, cfg config.Config) (*canvas.Repo, error) {
	if cfg.Canvas.Repo == "" {
		return nil, nil //nolint:nilnil // there need not be one
	}
	return canvas.Open(ctx, cfg.Canvas.Repo, cfg.Canvas.Branch)
}
