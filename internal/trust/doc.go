// Package trust records which folders the user trusts, and with which content.
//
// An agent.toml that is found in a folder may have come with a clone. It names programs to run and addresses that get
// keys, so none of it is used before the user has trusted its content and the content of the files in the folder that
// it names as programs. The records are in the user's own state directory, one for the real path of each folder.
package trust
