// Package follow yields the events of a turn or of a session as they appear in the journal. A reader that knows the
// index of its last event resumes there.
package follow
