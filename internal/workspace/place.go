package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/journal"
)

// Journal says which place has the tree of a session, and its last commit. journal.DB documents the methods.
type Journal interface {
	Tree(ctx context.Context, tenant, session string) (journal.Tree, journal.TreeHolder, error)
	MoveTree(ctx context.Context, tenant, session, worker string, to journal.Tree) error
	DropTree(ctx context.Context, tenant, session string, epoch int64) error
}

// ErrUnavailable means that the journal does not answer.
var ErrUnavailable = journal.ErrUnavailable

// ElsewhereError means that another place has the tree of a session, and keeps it for now.
type ElsewhereError struct {
	Session string
	Place   string
	Worker  string        // that was last seen there
	Unseen  time.Duration // since then
	Free    time.Duration // how long until another place may take the tree over
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("the tree of session %s is on worker %s, which was last seen %s ago; another worker takes it "+
		"over in %s",
		e.Session, e.Worker, rounded(e.Unseen), rounded(e.Free))
}

// LostError means that a place cannot have the tree of a session, because it does not get a commit.
type LostError struct {
	Session, Commit string
	Worker          string // that was last seen with the tree; empty after an import
	Remote          string // empty if there is none
	Err             error  // of the remote; nil if it lacks the commit
}

func (e *LostError) Error() string {
	where := "no worker has had it in this journal"
	if e.Worker != "" {
		where = "worker " + e.Worker + " had it"
	}
	text := fmt.Sprintf("the tree of session %s cannot be made here: its commit %.10s is not on this machine; %s",
		e.Session,
		e.Commit, where)
	switch {
	case e.Remote == "":
		return text + ". Start a worker there again, or fetch the commit into the repository of this worker. A [workspace] " +
			"remote keeps the commits of all workers"
	case e.Err != nil:
		return fmt.Sprintf("%s, and the remote %s does not answer: %v", text, e.Remote, e.Err)
	}
	return fmt.Sprintf("%s, and the remote %s does not have it. Start a worker there again, or push the commit to the "+
		"remote",
		text, e.Remote)
}

func (e *LostError) Unwrap() error { return e.Err }

// TakenError means that another place has taken the tree over while a call was changing it here. Kept is the reference
// of the store that keeps what the call had changed; it is empty if that was nothing.
type TakenError struct{ Session, Kept string }

func (e *TakenError) Error() string {
	text := "another worker has taken over the tree of session " + e.Session + "; nothing of this call is part of it"
	if e.Kept != "" {
		text += ". What it had changed is kept on this machine as " + e.Kept
	}
	return text
}

func rounded(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }

// Place returns the ID of the store, which names it in the journal.
func (s *Store) Place() string { return s.place }

// readPlace reads the ID of the store, which it makes first if there is none.
func (s *Store) readPlace() error {
	file := filepath.Join(s.dir, "place")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(rand.Text())
		err = statedir.Replace(file, string(b))
	}
	s.place = strings.TrimSpace(string(b))
	return err
}

// treeName returns the name of a tree in the directories of the store. Each epoch has a tree of its own, because a
// process of an earlier one may still write.
func treeName(tenant, session string, epoch int64) string {
	name := dirName(tenant, session)
	if epoch > 1 {
		name += "." + strconv.FormatInt(epoch, 10)
	}
	return name
}

// row returns what the journal knows of a tree that this place has, and takes it over first if it may. If no place has
// the tree, or if there is no journal, it returns a Tree with the epoch in which it would begin, and without a place.
func (s *Store) row(ctx context.Context, a Action) (journal.Tree, error) {
	j := s.o.journal()
	if j == nil {
		return journal.Tree{Epoch: 1}, nil
	}
	for {
		row, holder, err := j.Tree(ctx, a.Tenant, a.Session)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return journal.Tree{Epoch: 1}, nil
		case err != nil || row.Place == s.place:
			return row, err
		case row.Dropped():
			return journal.Tree{Epoch: row.Epoch + 1}, nil
		case row.Place != "" && holder.Unseen < s.o.TakeoverAfter:
			return row, s.elsewhere(a.Session, row, holder)
		}
		if err := s.bring(ctx, a, row, holder.Worker); err != nil {
			return row, err
		}
		row.Epoch++
		from := row.Place
		row.Place = s.place
		err = j.MoveTree(ctx, a.Tenant, a.Session, s.o.Worker, row)
		if err == nil {
			if from != "" {
				err = s.giveNotice(treeName(a.Tenant, a.Session, row.Epoch), s.notice(row, holder))
			}
			return row, err
		}
		if !errors.Is(err, journal.ErrStale) { // another place was faster
			return row, err
		}
	}
}

func (s *Store) elsewhere(session string, row journal.Tree, holder journal.TreeHolder) error {
	return &ElsewhereError{Session: session, Place: row.Place, Worker: holder.Worker, Unseen: holder.Unseen,
		Free: s.o.TakeoverAfter - holder.Unseen}
}

// bring makes sure that the store has the commits of a tree, if need be from the remote.
func (s *Store) bring(ctx context.Context, a Action, row journal.Tree, worker string) error {
	lost := LostError{Session: a.Session, Worker: worker, Remote: withoutPassword(s.o.Remote, s.o.Remote)}
	for _, id := range []string{row.Head, row.Base} {
		if id == "" || s.has(ctx, id) {
			continue
		}
		lost.Commit = id
		if s.o.Remote != "" && objectID.MatchString(id) {
			lost.Err = s.fetch(ctx, a, id)
		}
		if lost.Err != nil || !s.has(ctx, id) {
			return &lost
		}
	}
	return nil
}

// has reports whether the store has a commit, or borrows it.
func (s *Store) has(ctx context.Context, id string) bool {
	if !objectID.MatchString(id) { // of an import
		return false
	}
	_, err := s.git(ctx, nil, "cat-file", "-e", id+"^{commit}")
	return err == nil
}

// Missing returns those commits of an exported tree that neither this machine nor the remote has.
func (s *Store) Missing(ctx context.Context, tenant, session string, t journal.ExportTree) (ids []string, err error) {
	a := Action{Tenant: tenant, Session: session}
	err = s.bring(ctx, a, journal.Tree{Head: t.Head, Base: t.Base}, "")
	var lost *LostError
	if !errors.As(err, &lost) {
		return nil, err
	}
	for _, id := range []string{t.Head, t.Base} {
		if id != "" && !s.has(ctx, id) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, lost.Err
}

// notice says what is lost of a tree that this place has taken over, for the model and the user.
func (s *Store) notice(row journal.Tree, holder journal.TreeHolder) string {
	text := fmt.Sprintf("[this session's tree was made anew at its last commit, %.10s, because worker %s was last seen "+
		"%s ago. "+
		"Not here: changes of a call that was interrupted there, the index of the tree's git", row.Head, holder.Worker,
		rounded(holder.Unseen))
	if len(row.Ignored) > 0 {
		text += ", and the files that .gitignore names: " + list(row.Ignored)
	}
	return text + "]"
}

// list joins the first names for a message.
func list(names []string) string {
	var shown []string
	for i, name := range names {
		if i == maxNamed {
			shown = append(shown, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		shown = append(shown, oneLine(name, 400))
	}
	return strings.Join(shown, ", ")
}

func (s *Store) noticeFile(name string) string { return s.callFile(name) + ".notice" }

func (s *Store) giveNotice(name, text string) error {
	return statedir.Replace(s.noticeFile(name), text)
}

// takeNotice returns the notice of a tree, once.
func (s *Store) takeNotice(name string) string {
	b, err := os.ReadFile(s.noticeFile(name))
	if err != nil || os.Remove(s.noticeFile(name)) != nil {
		return ""
	}
	return string(b)
}
