package temporalconn

import "strings"

// Environ is an environment in the form of os.Environ. It implements envconfig.EnvLookup.
type Environ []string

// Environ returns the environment.
func (e Environ) Environ() []string { return e }

// LookupEnv returns the value of a variable and whether it is set.
func (e Environ) LookupEnv(key string) (string, bool) {
	for _, kv := range e {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}
