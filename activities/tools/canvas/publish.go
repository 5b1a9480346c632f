package canvas

import (
	"context"
	"errors"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/workflows/turn"
)

type publishInput struct {
	Commit string   `json:"commit" jsonschema:"the last commit, as canvas_diff shows it"`
	Files  []string `json:"files" jsonschema:"the paths of all files that the session has changed"`
	Title  string   `json:"title" jsonschema:"what the changes do, in one line"`
	Squash bool     `json:"squash,omitempty" jsonschema:"push one commit of all changes"`
}

// registerPublish adds the tool canvas_publish, if the configuration says where canvases are published. An interrupted
// call is not repeated, because the command for a pull request may have taken effect.
func (s set) registerPublish(r *tools.Registry) error {
	if s.to == nil {
		return nil
	}
	does := "Push what this session has changed to a branch of the remote repository"
	if len(s.to.PullRequest) > 0 {
		does += ", and open a pull request"
	}
	return tools.Add(r, "canvas_publish", does+". commit and files are those that canvas_diff shows.", s.publish,
		tools.Risk(turn.RiskHigh), tools.AlwaysAsks(), tools.Timeout(workspace.PublishTimeout))
}

// publish implements the tool canvas_publish. An approval shows the arguments, so the canvas must be what they say.
func (s set) publish(ctx context.Context, in publishInput) (string, error) {
	a, _, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	if in.Commit == "" {
		return "", errors.New("commit is empty: take it from canvas_diff")
	}
	done, err := s.Store.Publish(ctx, workspace.PublishInput{Action: a, Publishing: *s.to, Commit: in.Commit, Files: in.Files,
		Squash: in.Squash, Title: in.Title})
	if done.Pushed {
		report(ctx, turn.WorkspaceEvent{Kind: turn.EventWorkspacePublished, Commit: done.Commit,
			Branch: done.Branch}.WithFiles(done.Files))
	}
	if err != nil {
		return "", err
	}
	return done.String(), nil
}
