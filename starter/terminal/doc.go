// Package terminal makes text safe to be shown on a terminal. Models, tools, files and other people write what is shown
// there, and none of them may move the cursor, set a title, write to the clipboard or turn the direction of writing.
package terminal
