//go:build !linux

package shell

import (
	"context"
	"errors"
)

func supported() error { return errors.New("commands can be confined on Linux only") }

func runConfined(context.Context, confinement, string, []string) (string, error) {
	return "", supported()
}
