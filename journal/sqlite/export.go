package sqlite

import (
	"context"
	"errors"
	"io"

	"github.com/everturn/everturn/journal"
)

func (s *Store) Export(ctx context.Context, session string, w io.Writer) error {
	return errors.New("todo")
}

func (s *Store) Import(ctx context.Context, r io.Reader) (journal.SessionRecord, error) {
	return journal.SessionRecord{}, errors.New("todo")
}
