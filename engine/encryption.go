package engine

import (
	"context"
	"log/slog"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/internal/temporalconn"
)

// openKeys reads the encryption keys, if any are configured. The engine redacts them in logs and in the output of
// tools, and logs no error texts of activities, because these may quote content.
func (e *Engine) openKeys(context.Context) (err error) {
	if e.keys, err = codec.Open(e.cfg.Encryption); err != nil || e.keys == nil {
		return err
	}
	e.keys.Learn(e.secrets.Add) // also keys that a later version of the file adds
	e.log = slog.New(temporalconn.ContentFree(e.log.Handler()))
	return nil
}
