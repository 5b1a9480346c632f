package childenv

// Base are the variables that every child process of this program gets: enough to find programs, a home and a language. Keys
// of providers and servers are not among them, because any process of the same user can read a child's environment.
var Base = []string{"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "USER", "LOGNAME"}
