package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/metrics"
	"runtime/pprof"
	"syscall"
	"time"
)

// vitalsEvery is how often a worker reports the figures that only it knows.
const vitalsEvery = time.Second

// reportVitals keeps a file up to date with the worker's goroutines and live heap until ctx ends. On each SIGUSR1 it
// writes a heap profile and its goroutines' stacks beside the file, so that the cause of growth can be found.
func reportVitals(ctx context.Context, file string) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	ticker := time.NewTicker(vitalsEvery)
	defer ticker.Stop()
	for n := 1; ; {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			err = writeVitals(file)
		case <-asked:
			err = errors.Join(writeProfile("heap", 0, fmt.Sprintf("%s-heap-%d.pprof", file, n)),
				writeProfile("goroutine", 1, fmt.Sprintf("%s-goroutines-%d.txt", file, n)))
			n++
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "writing vitals: "+err.Error())
		}
	}
}

func writeVitals(file string) error {
	list := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(list)
	b, err := json.Marshal(map[string]any{"goroutines": list[0].Value.Uint64(), "live_heap": list[1].Value.Uint64()})
	if err != nil {
		return err
	}
	return replace(file, b)
}

// writeProfile writes one of the runtime's profiles. debug 1 writes readable text.
func writeProfile(name string, debug int, file string) error {
	var b bytes.Buffer
	if err := pprof.Lookup(name).WriteTo(&b, debug); err != nil {
		return err
	}
	return replace(file, b.Bytes())
}

// replace writes a file atomically, so that readers never see half of it.
func replace(file string, b []byte) error {
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
