// Package follow yields the chunks of a turn or of a session as they appear in the journal. A reader that knows the
// index of its last chunk resumes there.
package follow
