package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// TakenBack is a commit of a session's tree that the user took back, until the session's model is told.
type TakenBack struct {
	Commit  string   `json:"commit"`
	Subject string   `json:"subject"`        // of the commit
	Call    string   `json:"call,omitempty"` // TURN/CALL
	Files   []string `json:"files"`
}

// maxTakenBack bounds the commits of which one message tells. Of more, it tells of the last ones.
const maxTakenBack = 50

// TakeBack records that the user took back a commit of a session. Before its next inference, the session's model is
// told, once. ErrNotFound if there is no such session.
func (db *DB) TakeBack(ctx context.Context, session string, c TakenBack) error {
	return db.write(ctx, fmt.Sprintf("recording what was taken back in session %q", session), func(t *tx) error {
		if err := t.LockSession(session); err != nil {
			return err
		}
		row, list, err := t.takenBack(`tenant = ? AND session_id = ?`, t.Tenant, session)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(o TakenBack) bool { return o.Commit == c.Commit }) // of an earlier run
		list = append(list, c)
		return t.Exec(`UPDATE sessions SET taken_back = ? WHERE id = ?`,
			contentOf(CleanText(string(mustJSON(list[max(0, len(list)-maxTakenBack):])))), row)
	})
}

// takenBack returns a session's row, and the commits that were taken back of which its model is not told.
func (q querier) takenBack(where string, args ...any) (row int64, list []TakenBack, err error) {
	var text string
	err = q.Row(`SELECT id, taken_back FROM sessions WHERE `+where, args...).Scan(&row, intoContent(&text))
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &list)
	}
	return row, list, err
}

// appendTakenBack appends a message about the commits that were taken back since the last inference, and emits
// workspace_rewound for each of them.
func (t *tx) appendTakenBack(sc *scope, step int, at time.Time) error {
	row, list, err := t.takenBack(`id = ?`, sc.Session)
	if err != nil || len(list) == 0 {
		return err
	}
	m := turn.Message{ID: "undo:" + list[len(list)-1].Commit, Role: turn.RoleUser, Text: takenBackText(list), Step: step}
	if _, err := t.AppendMessage(sc, m); err != nil {
		return err
	}
	for _, c := range list {
		_, call, _ := strings.Cut(c.Call, "/")
		e := turn.WorkspaceEvent{CallID: call, Commit: c.Commit}.WithFiles(c.Files)
		if err := t.emitData(sc, turn.Event{Kind: turn.EventWorkspaceRewound, Step: step, At: at}, e); err != nil {
			return err
		}
	}
	return t.Exec(`UPDATE sessions SET taken_back = NULL WHERE id = ?`, row)
}

// takenBackText returns the message for the model. It has the role user, so it says that no user wrote it.
func takenBackText(list []TakenBack) string {
	var b strings.Builder
	b.WriteString("Notice of the system, not of the user: the user took back changes in the workspace. These files are again as they " +
		"were before:\n")
	for _, c := range list {
		fmt.Fprintf(&b, "- %s", c.Subject)
		if _, call, ok := strings.Cut(c.Call, "/"); ok && call != "" {
			fmt.Fprintf(&b, " (call %s)", call)
		}
		files := turn.WorkspaceEvent{}.WithFiles(c.Files)
		fmt.Fprintf(&b, ": %s", strings.Join(files.Files, ", "))
		if files.FilesTotal > 0 {
			fmt.Fprintf(&b, " and %d more", files.FilesTotal-len(files.Files))
		}
		b.WriteString("\n")
	}
	return b.String()
}
