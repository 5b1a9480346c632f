package sandbox

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Open returns a sandbox after it has tried it: it runs attacks and git inside. The error matches ErrUnavailable if
// this machine cannot hold the level, and says what to do.
func Open(ctx context.Context, o Options) (*Sandbox, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	s := &Sandbox{o: o, self: realPath(self), modules: goModules(o.Environ), proxyAsked: o.Network == NetworkProxy}
	if o.Level == LevelLandlock {
		s.o.Network = NetworkNone
	}
	if o.Level == LevelNone {
		s.o.Network = NetworkHost
		return s, nil
	}
	if o.Level == LevelNamespace {
		if s.bwrap = found(o.Environ, "bwrap"); s.bwrap == "" {
			return nil, unavailable("bubblewrap is not installed", installBubblewrap)
		}
		s.systems = machine(o.Network)
	} else if err := supportsLandlock(); err != nil {
		return nil, unavailable(err.Error(), "remove level from [sandbox]: bubblewrap works on older kernels")
	}
	s.read = existing(slices.Concat(toolchains(o.Environ), o.Read, nonEmpty(s.modules)))
	if o.Level == LevelLandlock {
		s.read = append(s.read, s.self)
	}
	return s, s.probe(ctx)
}

const installBubblewrap = "install it (apt install bubblewrap), or choose a weaker isolation: " +
	"level = \"landlock\" in [sandbox]"

// unavailable returns an error that matches ErrUnavailable. remedy says what to do.
func unavailable(why, remedy string) error {
	return fmt.Errorf("%w: %s; %s", ErrUnavailable, strings.TrimSpace(why), remedy)
}

func nonEmpty(paths ...string) []string {
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" })
}
