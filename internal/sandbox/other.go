//go:build !linux

package sandbox

import (
	"context"
	"fmt"
)

// Open returns an error: commands can be isolated on Linux only.
func Open(_ context.Context, _ Options) (*Sandbox, error) {
	return nil, fmt.Errorf("%w: they run on Linux only; set enabled = false in [shell]", ErrUnavailable)
}

func (s *Sandbox) run(context.Context, Command, string) (Exit, error) { return Exit{}, ErrUnavailable }
