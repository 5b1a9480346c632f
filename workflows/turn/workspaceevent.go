package turn

import (
	"encoding/json"
	"fmt"
	"strings"
)

// WorkspaceEvent is the data of workspace_created, workspace_setup, workspace_committed, workspace_rewound,
// workspace_merged and workspace_published. The journal records those of a call together with its end.
type WorkspaceEvent struct {
	Kind EventKind `json:"-"`
	// CallID is the call that did it; of workspace_rewound, the call that was taken back. It is empty for a change outside
	// of calls.
	CallID string `json:"call_id,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// Branch is the session's, or the one into which it was merged or to which it was published.
	Branch string `json:"branch,omitempty"`
	// Commit is the one that was made, merged, pushed or taken back, or at which a new tree begins.
	Commit string `json:"commit,omitempty"`
	// Files are the first ones that were changed, and FilesTotal is how many there are, if these are not all.
	Files      []string `json:"files,omitempty"`
	FilesTotal int      `json:"files_total,omitempty"`
	// Command is the command workspace.setup, Problem why it failed, and Output the end of its output.
	Command string `json:"command,omitempty"`
	Problem string `json:"problem,omitempty"`
	Output  string `json:"output,omitempty"`
}

// maxEventFiles bounds WorkspaceEvent.Files.
const maxEventFiles = 20

// WithFiles returns e with the paths of files.
func (e WorkspaceEvent) WithFiles(paths []string) WorkspaceEvent {
	if e.Files = paths; len(paths) > maxEventFiles {
		e.Files, e.FilesTotal = paths[:maxEventFiles], len(paths)
	}
	return e
}

// workspaceLine returns a function for EventType.Line: what was done with the branch, the commit and the files.
func workspaceLine(done string) func(Event) string {
	return func(e Event) string {
		var w WorkspaceEvent
		if json.Unmarshal(e.Data, &w) != nil {
			return ""
		}
		switch {
		case e.Kind == EventWorkspaceSetup && w.Problem != "":
			return fmt.Sprintf("setup failed: %s (%s)", w.Command, w.Problem)
		case e.Kind == EventWorkspaceSetup:
			return "setup: " + w.Command
		}
		line := fmt.Sprintf("%s commit %.10s", done, w.Commit)
		if w.Branch != "" {
			line += ", branch " + w.Branch
		}
		if len(w.Files) > 0 {
			line += ": " + strings.Join(w.Files, ", ")
		}
		return line
	}
}
