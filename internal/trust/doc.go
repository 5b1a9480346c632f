// Package trust remembers which folders the user trusts, and for which content.
//
// An agent.toml that is found in a folder may have come with a clone. It names programs to run and addresses that get
// keys, so nothing of it is used before the user has trusted it: its content, and the content of the files in the
// folder that it names as programs. The record is in the user's own state directory, under the folder's real path.
package trust
