// Package shell provides the tool shell, which runs a command of the model. The command runs in a session of its
// own, all processes of which are killed when it ends, under Landlock and a filter of system calls: it reads the
// workspace and the programs of the machine, writes only the directories that the operator names and a temporary one,
// and makes no sockets. Its environment is an allow-list. A kernel that
// cannot confine the command gets no tool.
//
// The program runs itself a second time to confine the command: see init. A command is never repeated.
package shell
