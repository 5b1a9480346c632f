package files

import (
	"context"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/redact"
)

// Roots gives each call the directory in which it acts: the tree of its session.
type Roots interface {
	// Read returns the directory for a call that only reads. notice is a line for the model, which is mostly empty.
	Read(ctx context.Context) (dir, notice string, err error)
	// Change calls run with the directory of a call that changes files, and returns what run says was done, for the model.
	// changed are the paths of the files that it may have changed, also after an error. title describes the change. If an
	// earlier attempt of the call has made the change, Change need not call run.
	Change(ctx context.Context, title string, run func(dir string) (done string, changed []string, err error)) (string,
		error)
}

// RegisterIn adds the tools to r, also those that write. Each call acts in the directory that roots has for it. The
// tools may be called again after a crash, because roots knows what an earlier attempt has changed.
func RegisterIn(r *tools.Registry, roots Roots, rules Options) error {
	rules.Write = true
	return register(r, trees{roots, rules, r.Secrets()})
}

// opener opens the workspace of a call.
type opener interface {
	options() Options
	read(ctx context.Context, f func(w *workspace) (string, error)) (string, error)
	change(ctx context.Context, title string, f func(w *workspace) (string, error)) (string, error)
}

// folder is the opener of a workspace that is the same for all calls.
type folder struct{ w *workspace }

func (o folder) options() Options { return o.w.Options }

func (o folder) read(_ context.Context, f func(w *workspace) (string, error)) (string, error) {
	return f(o.w)
}

func (o folder) change(_ context.Context, _ string, f func(w *workspace) (string, error)) (string, error) {
	o.w.writing.Lock()
	defer o.w.writing.Unlock()
	return f(o.w)
}

// trees is the opener of a workspace for each call.
type trees struct {
	roots   Roots
	rules   Options
	secrets *redact.Redactor
}

func (o trees) options() Options { return o.rules }

func (o trees) read(ctx context.Context, f func(w *workspace) (string, error)) (string, error) {
	dir, notice, err := o.roots.Read(ctx)
	if err != nil {
		return "", err
	}
	done, _, err := o.in(dir, f)
	if notice != "" {
		done = notice + "\n" + done
	}
	return done, err
}

func (o trees) change(ctx context.Context, title string, f func(w *workspace) (string, error)) (string, error) {
	return o.roots.Change(ctx, title, func(dir string) (string, []string, error) { return o.in(dir, f) })
}

// in calls f with a directory as the workspace.
func (o trees) in(dir string, f func(w *workspace) (string, error)) (done string, changed []string, err error) {
	w, err := open(dir, o.rules)
	if err != nil {
		return "", []string{}, err
	}
	defer w.root.Close()
	w.secrets, w.changed = o.secrets, []string{}
	done, err = f(w)
	return done, w.changed, err
}

// reads makes a tool of a method that reads the workspace.
func reads[In any](o opener, f func(w *workspace, ctx context.Context, in In) (string, error)) func(context.Context,
	In) (string, error) {
	return func(ctx context.Context, in In) (string, error) {
		return o.read(ctx, func(w *workspace) (string, error) { return f(w, ctx, in) })
	}
}

// changes makes a tool of a method that changes a file of the workspace. path returns the file's path, for the title of
// the change, which begins with verb.
func changes[In any](o opener, verb string, path func(In) string,
	f func(w *workspace, ctx context.Context, in In) (string, error)) func(context.Context, In) (string, error) {
	return func(ctx context.Context, in In) (string, error) {
		return o.change(ctx, verb+" "+path(in), func(w *workspace) (string, error) { return f(w, ctx, in) })
	}
}
