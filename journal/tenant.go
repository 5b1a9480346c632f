package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/everturn/everturn/workflows/turn"
)

// ForTenant returns store restricted to one tenant: the sessions and turns of other tenants do not exist in it, and
// reading them returns the same ErrNotFound as reading an unknown ID. The empty tenant is the default tenant, which is
// restricted in the same way.
//
// The result is for reads, forks, exports and imports. The methods with which a Journal records a running turn are
// store's own: they name sessions and turns that the worker has from Begin, which checks the tenant itself. The methods
// for catalogues, which belong to the operator, and for blobs, whose hashes cannot be guessed, are store's own, too.
//
// Import accepts only exports of the same tenant: neither the exporter nor the importer can move a session to another
// tenant.
func ForTenant(store Store, tenant string) Store {
	return &bound{Store: store, tenant: tenant, known: map[string]bool{}}
}

// bound is a store with its tenant. It must override every method that takes a session or a turn; a test checks that.
type bound struct {
	Store
	tenant string

	mu    sync.Mutex
	known map[string]bool // turns known to belong to this tenant
}

// maxKnown bounds the known turns of a bound, which spare the reader of a turn a repeated check.
const maxKnown = 1024

// elsewhere returns the error for a session or turn that the tenant does not have.
func elsewhere(what, id string) error { return fmt.Errorf("reading %s %q: %w", what, id, ErrNotFound) }

// session returns an error if the tenant has no such session.
func (b *bound) session(ctx context.Context, id string) error {
	_, err := b.Session(ctx, id)
	return err
}

// turn returns an error if the tenant has no such turn.
func (b *bound) turn(ctx context.Context, id string) error {
	b.mu.Lock()
	known := b.known[id]
	b.mu.Unlock()
	if known {
		return nil
	}
	_, err := b.Turn(ctx, id)
	return err
}

func (b *bound) remember(turnID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= maxKnown {
		clear(b.known)
	}
	b.known[turnID] = true
}

// Session implements Store.
func (b *bound) Session(ctx context.Context, id string) (SessionRecord, error) {
	rec, err := b.Store.Session(ctx, id)
	if err == nil && rec.Tenant != b.tenant {
		return SessionRecord{}, elsewhere("session", id)
	}
	return rec, err
}

// Sessions implements Store.
func (b *bound) Sessions(ctx context.Context, limit int) ([]SessionRecord, error) {
	return b.Store.SessionsOf(ctx, b.tenant, limit)
}

// SessionsOf implements Store.
func (b *bound) SessionsOf(ctx context.Context, tenant string, limit int) ([]SessionRecord, error) {
	if tenant != b.tenant {
		return nil, nil
	}
	return b.Sessions(ctx, limit)
}

// PendingRequests implements Store.
func (b *bound) PendingRequests(ctx context.Context, session string, limit int) ([]RequestRecord, error) {
	if session == "" {
		return b.Store.PendingRequestsOf(ctx, b.tenant, limit)
	}
	if err := b.session(ctx, session); err != nil {
		return nil, ignoreNotFound(err)
	}
	return b.Store.PendingRequests(ctx, session, limit)
}

// PendingRequestsOf implements Store.
func (b *bound) PendingRequestsOf(ctx context.Context, tenant string, limit int) ([]RequestRecord, error) {
	if tenant != b.tenant {
		return nil, nil
	}
	return b.PendingRequests(ctx, "", limit)
}

// Turn implements Journal.
func (b *bound) Turn(ctx context.Context, turnID string) (TurnRecord, error) {
	rec, err := b.Store.Turn(ctx, turnID)
	if err != nil {
		return rec, err
	}
	if err := b.session(ctx, rec.Session); errors.Is(err, ErrNotFound) {
		return TurnRecord{}, elsewhere("turn", turnID)
	} else if err != nil {
		return TurnRecord{}, err
	}
	b.remember(turnID)
	return rec, nil
}

// Turns implements Store.
func (b *bound) Turns(ctx context.Context, session string) ([]TurnRecord, error) {
	if err := b.session(ctx, session); err != nil {
		return nil, err
	}
	return b.Store.Turns(ctx, session)
}

// TurnsAfter implements Store.
func (b *bound) TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error) {
	if err := b.session(ctx, session); err != nil {
		return nil, err
	}
	return b.Store.TurnsAfter(ctx, session, after, limit)
}

// Messages implements Journal.
func (b *bound) Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error) {
	if err := b.session(ctx, session); err != nil {
		return nil, err
	}
	return b.Store.Messages(ctx, session, from, to)
}

// Window implements Journal.
func (b *bound) Window(ctx context.Context, session string, from, to, maxBytes int64) ([]turn.Message, error) {
	if err := b.session(ctx, session); err != nil {
		return nil, err
	}
	return b.Store.Window(ctx, session, from, to, maxBytes)
}

// Delivered implements Journal.
func (b *bound) Delivered(ctx context.Context, session, messageID string) (TurnRecord, error) {
	if err := b.session(ctx, session); err != nil {
		return TurnRecord{}, err
	}
	return b.Store.Delivered(ctx, session, messageID)
}

// Grants implements Journal.
func (b *bound) Grants(ctx context.Context, session string) ([]turn.Grant, error) {
	if err := b.session(ctx, session); err != nil {
		return nil, err
	}
	return b.Store.Grants(ctx, session)
}

// Taint implements Journal.
func (b *bound) Taint(ctx context.Context, session string) (*TaintSource, error) {
	if err := b.session(ctx, session); err != nil {
		return nil, ignoreNotFound(err)
	}
	return b.Store.Taint(ctx, session)
}

// Artifact implements Journal.
func (b *bound) Artifact(ctx context.Context, session, hash string) (mediaType string, content []byte, err error) {
	if err := b.session(ctx, session); err != nil {
		return "", nil, err
	}
	return b.Store.Artifact(ctx, session, hash)
}

// Chunks implements Store.
func (b *bound) Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error) {
	if err := b.turn(ctx, turnID); err != nil {
		return nil, ignoreNotFound(err)
	}
	return b.Store.Chunks(ctx, turnID, after, limit)
}

// Requests implements Store.
func (b *bound) Requests(ctx context.Context, turnID string) ([]RequestRecord, error) {
	if err := b.turn(ctx, turnID); err != nil {
		return nil, err
	}
	return b.Store.Requests(ctx, turnID)
}

// Inferences implements Store.
func (b *bound) Inferences(ctx context.Context, turnID string) ([]Inference, error) {
	if err := b.turn(ctx, turnID); err != nil {
		return nil, err
	}
	return b.Store.Inferences(ctx, turnID)
}

// Calls implements Store.
func (b *bound) Calls(ctx context.Context, turnID string) ([]CallRecord, error) {
	if err := b.turn(ctx, turnID); err != nil {
		return nil, err
	}
	return b.Store.Calls(ctx, turnID)
}

// Call implements Journal.
func (b *bound) Call(ctx context.Context, turnID, callID string) (CallRecord, error) {
	if err := b.turn(ctx, turnID); err != nil {
		return CallRecord{}, err
	}
	return b.Store.Call(ctx, turnID, callID)
}

// StepMessage implements Journal.
func (b *bound) StepMessage(ctx context.Context, key StepKey) (turn.Message, error) {
	if err := b.turn(ctx, key.Turn); err != nil {
		return turn.Message{}, err
	}
	return b.Store.StepMessage(ctx, key)
}

// Fork implements Store. The new session belongs to the same tenant. The error is ErrTaken if another tenant has a
// session with its name.
func (b *bound) Fork(ctx context.Context, in ForkInput) (SessionRecord, error) {
	if err := b.session(ctx, in.Session); err != nil {
		return SessionRecord{}, err
	}
	rec, err := b.Store.Fork(ctx, in)
	if errors.Is(err, ErrExists) {
		if taken, terr := Taken(ctx, b, in.ID); taken || terr != nil {
			return rec, errors.Join(terr, fmt.Errorf("forking session %q: the name %q: %w: choose another", in.Session, in.ID, ErrTaken))
		}
	}
	return rec, err
}

// Taken reports whether another tenant has a session with this name, if store is the result of ForTenant. Begin would
// refuse a turn in that session.
func Taken(ctx context.Context, store Store, session string) (bool, error) {
	b, ok := store.(*bound)
	if !ok {
		return false, nil
	}
	rec, err := b.Store.Session(ctx, session)
	return err == nil && rec.Tenant != b.tenant, ignoreNotFound(err)
}

// Export implements Store.
func (b *bound) Export(ctx context.Context, session string, w io.Writer) error {
	if err := b.session(ctx, session); err != nil {
		return err
	}
	return b.Store.Export(ctx, session, w)
}

// Import implements Store. It refuses an export of another tenant with ErrTaken before it reads any of the export's
// content.
func (b *bound) Import(ctx context.Context, r io.Reader) (Imported, error) {
	lines := lineReader{r: bufio.NewReaderSize(r, 64<<10)}
	first, err := lines.read()
	if err != nil && !errors.Is(err, io.EOF) {
		return Imported{}, fmt.Errorf("importing a session: line 1: %w", err)
	}
	var l struct {
		Header *struct {
			Tenant string `json:"tenant"`
		} `json:"header"`
	}
	if json.Unmarshal(first, &l) == nil && l.Header != nil && l.Header.Tenant != b.tenant {
		return Imported{}, fmt.Errorf("importing a session of %s for %s: %w: act for that one",
			tenantName(l.Header.Tenant), tenantName(b.tenant), ErrTaken)
	}
	return b.Store.Import(ctx, io.MultiReader(bytes.NewReader(append(first, '\n')), lines.r))
}

func tenantName(tenant string) string {
	if tenant == "" {
		return "the default tenant"
	}
	return fmt.Sprintf("tenant %q", tenant)
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
