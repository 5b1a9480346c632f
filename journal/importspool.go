package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxImportBytes bounds an import, which is first copied to a temporary file in Database.TempDir.
const maxImportBytes = 1 << 30

// spoolImport copies r into an unnamed file and checks it, so that a slow source or a damaged export holds no lock. The
// caller closes the file.
func (s *DB) spoolImport(ctx context.Context, r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp(s.db.TempDir(), ".import-*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		var n int64
		n, err = io.Copy(f, io.LimitReader(untilDone{ctx: ctx, Reader: r}, maxImportBytes+1))
		if n > maxImportBytes {
			err = fmt.Errorf("the export exceeds %d bytes", int64(maxImportBytes))
		}
	}
	if err == nil {
		for _, err = range ReadExport(untilDone{ctx: ctx, Reader: io.NewSectionReader(f, 0, maxImportBytes)}) {
			if err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// untilDone is a reader and writer that fails when its context ends, so that a long import or export can be cancelled.
type untilDone struct {
	ctx context.Context
	io.Reader
	io.Writer
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Writer.Write(p)
}
