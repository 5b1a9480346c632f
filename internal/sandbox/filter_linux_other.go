//go:build linux && !amd64

package sandbox

func legacyRefused() []refusal { return nil }

func legacyWithoutNamespaces() []refusal { return nil }
