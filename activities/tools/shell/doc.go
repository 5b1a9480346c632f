// Package shell provides the tool shell, which runs a command of the model. Landlock and a filter of system calls
// confine the command: it reads the workspace and the programs of the machine, writes only the directories that the
// operator names and a temporary one, and makes no sockets. It runs in a POSIX session of its own, all processes of
// which are killed when the command ends. Its environment is an allow-list. If the kernel cannot confine a command,
// the tool is not offered.
//
// To confine a command, the program starts itself a second time; see the package's function init. A command is never
// repeated.
package shell
