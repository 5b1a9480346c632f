package engine

import (
	"context"
	"path/filepath"

	"github.com/everturn/everturn/codec"
)

// openKeys reads the keys of the encryption. They are blanked in logs and in what leaves a tool, and the file tools do
// not read their file.
func (e *Engine) openKeys(context.Context) (err error) {
	if e.keys, err = codec.Open(e.cfg.Encryption); err != nil || e.keys == nil {
		return err
	}
	e.secrets.Add(e.keys.Secrets()...)
	if file := e.cfg.Encryption.KeyFile; file != "" {
		e.cfg.LocalFiles.Deny = append(e.cfg.LocalFiles.Deny[:len(e.cfg.LocalFiles.Deny):len(e.cfg.LocalFiles.Deny)],
			filepath.Base(file))
	}
	return nil
}
