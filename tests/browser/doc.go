// Package browser tests what a user sees of a turn in Temporal's Web UI, in Chromium.
package browser
