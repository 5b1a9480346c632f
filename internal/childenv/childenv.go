package childenv

// Base are the names of the variables that every child process of this program inherits: enough to find programs, a
// home folder and a language. They include no keys of providers and servers, because any process of the same user can
// read a child's environment.
var Base = []string{"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "USER", "LOGNAME"}
