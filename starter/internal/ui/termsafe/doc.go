// Package termsafe makes text safe to show on a terminal. The text comes from models, tools, files and other users, and
// must not move the cursor, set a title, write to the clipboard or change the direction of writing.
package termsafe
