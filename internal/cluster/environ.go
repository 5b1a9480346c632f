package cluster

import "strings"

// environ is an environment that the caller passes in. The process's own is not read.
type environ []string

// Environ implements envconfig.EnvLookup.
func (e environ) Environ() []string { return e }

// LookupEnv implements envconfig.EnvLookup.
func (e environ) LookupEnv(key string) (string, bool) {
	for _, kv := range e {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}
