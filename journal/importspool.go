package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// maxImportBytes bounds an import, which is first copied to a temporary file in Database.TempDir.
const maxImportBytes = 8 << 30

// spooled is an export in an unnamed file: it can be read twice, and a slow source holds no lock.
type spooled struct {
	*os.File
	blobs map[string]int64 // the offset of each blob's line
	last  ExportBlob       // the blob that was loaded last
}

// spoolImport copies r into a file and checks it. The caller closes the file.
func (s *DB) spoolImport(ctx context.Context, r io.Reader) (*spooled, error) {
	f, err := os.CreateTemp(s.db.TempDir(), ".import-*")
	if err != nil {
		return nil, err
	}
	sp := &spooled{File: f, blobs: map[string]int64{}}
	if err = os.Remove(f.Name()); err == nil {
		var n int64
		n, err = io.Copy(f, io.LimitReader(untilDone{ctx: ctx, Reader: r}, maxImportBytes+1))
		if n > maxImportBytes {
			err = fmt.Errorf("the export exceeds %d bytes", int64(maxImportBytes))
		}
	}
	if err == nil {
		err = sp.check(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return sp, nil
}

func (f *spooled) check(ctx context.Context) error {
	for l, err := range ReadExport(untilDone{ctx: ctx, Reader: f.from(0)}, f.blob) {
		if err != nil {
			return err
		}
		if l.Blob != nil {
			f.blobs[l.Blob.Hash] = l.offset
		}
	}
	return nil
}

func (f *spooled) from(offset int64) io.Reader {
	return io.NewSectionReader(f, offset, math.MaxInt64-offset)
}

// blob loads a blob whose line was read before. Lines that name the same blob often follow each other.
func (f *spooled) blob(hash string) ([]byte, error) {
	if f.last.Hash == hash {
		return f.last.Bytes, nil
	}
	at, there := f.blobs[hash]
	if !there {
		return nil, fmt.Errorf("blob %s: %w", hash, ErrNotFound)
	}
	lines := lineReader{r: bufio.NewReader(f.from(at))}
	text, err := lines.read()
	if err != nil {
		return nil, err
	}
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	f.last = *l.Blob
	return f.last.Bytes, nil
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
