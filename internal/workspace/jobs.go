package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/everturn/everturn/internal/statedir"
)

// background is a job: a command that goes on changing a tree after its call has returned. What it changes then becomes
// commits of its own, each before the next call changes the tree, and one when it has ended.
type background struct {
	Action
	Title   string
	Until   time.Time // when it has ended at the latest, also if its worker has died
	Commits int       // how many were made after its call
}

// jobSeparator stands between the call of a job and the number of the commit, in the trailer that names the call.
const jobSeparator = "+"

func (s *Store) jobsFile(name string) string { return filepath.Join(s.dir, "calls", name+".jobs") }

// jobs returns the jobs of a tree, the one that began last at the end.
func (s *Store) jobs(name string) (out []background, err error) {
	b, err := os.ReadFile(s.jobsFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("reading which jobs change the tree: %w", err)
	}
	return out, nil
}

// setJobs records the jobs of a tree.
func (s *Store) setJobs(name string, jobs []background) error {
	if len(jobs) == 0 {
		err := os.Remove(s.jobsFile(name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	b, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	return statedir.Replace(s.jobsFile(name), string(b))
}

// addJob records the job that the call a has started by a change.
func (t *tree) addJob(a Action, c Change) error {
	jobs, err := t.store.jobs(t.name)
	if err != nil {
		return err
	}
	return t.store.setJobs(t.name, append(jobs, background{Action: a, Title: c.Title, Until: time.Now().Add(c.Job)}))
}

// commitJobs commits what jobs have changed in the tree, as a change by the one that began last.
func (t *tree) commitJobs(ctx context.Context) error {
	jobs, err := t.store.jobs(t.name)
	if err != nil || len(jobs) == 0 {
		return err
	}
	if _, err := t.commitAs(ctx, jobs, len(jobs)-1); err != nil {
		return fmt.Errorf("committing what a job has changed: %w", err)
	}
	left := slices.DeleteFunc(jobs, func(j background) bool { return time.Now().After(j.Until) })
	return t.store.setJobs(t.name, left)
}

// commitAs commits what has changed in the tree as a change by one of its jobs.
func (t *tree) commitAs(ctx context.Context, jobs []background, at int) (res Result, err error) {
	changes, skipped, x, err := t.changed(ctx)
	if err != nil || len(changes) == 0 {
		return Result{Skipped: skipped}, err
	}
	jobs[at].Commits++ // recorded first, so that no two commits have the same number
	if err := t.store.setJobs(t.name, jobs); err != nil {
		return res, err
	}
	a := jobs[at].Action
	a.Call += jobSeparator + strconv.Itoa(jobs[at].Commits)
	res.Commit, res.Skipped, err = t.commit(ctx, a, jobs[at].Title, changes, x)
	res.Skipped = append(skipped, res.Skipped...)
	return res, err
}

// JobEnded commits what the job that the call a has started has changed since the last commit of the tree.
func (s *Store) JobEnded(ctx context.Context, a Action) (res Result, err error) {
	name := s.nameHere(a.Tenant, a.Session)
	if _, err := os.Lstat(s.treeDir(name)); err != nil { // the canvas was dropped
		return res, s.setJobs(name, nil)
	}
	t, err := s.open(ctx, a, nil)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	jobs, err := s.jobs(t.name)
	if err != nil {
		return res, err
	}
	at := slices.IndexFunc(jobs, func(j background) bool { return j.call() == a.call() })
	if at < 0 {
		return res, nil
	}
	if res, err = t.commitAs(ctx, jobs, at); err != nil {
		return res, err
	}
	return res, s.setJobs(t.name, slices.Delete(jobs, at, at+1))
}
