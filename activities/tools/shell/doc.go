// Package shell provides the tool shell, which runs a command of the model in a sandbox. Its Folder is the place of
// commands in a workspace that the user works in, too: they read it, without files of credentials, and write only the
// directories that the operator names. A command is never repeated.
package shell
