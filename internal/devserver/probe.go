package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// listener is the kind of program that listens on an address.
type listener int

const (
	noListener listener = iota
	otherListener
	temporalListener
)

// releaseTime is how long a killed server may take to release its port.
const releaseTime = 300 * time.Millisecond

// probe returns the kind of program that listens on the address and, if it is Temporal, its version. If it is another
// program, probe checks again after releaseTime: the port of a killed server still accepts connections for a moment.
func probe(ctx context.Context, address string) (listener, string) {
	who, version := probeOnce(ctx, address)
	if who != otherListener {
		return who, version
	}
	timer := time.NewTimer(releaseTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return who, version
	case <-timer.C:
		return probeOnce(ctx, address)
	}
}

// probeOnce does the work of probe, without the second check.
func probeOnce(ctx context.Context, address string) (listener, string) {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return noListener, ""
	}
	conn.Close()
	version, err := serverVersion(ctx, address)
	if err != nil {
		return otherListener, ""
	}
	return temporalListener, version
}

// serverVersion returns the version of the Temporal server at the address.
func serverVersion(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: quiet})
	if err != nil {
		return "", err
	}
	defer c.Close()
	info, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	return info.GetServerVersion(), err
}

// awaitServer waits until Temporal answers on the address. It returns an error if the supervisor ends first, which
// gone reports, or if the server takes longer than readyWithin. It polls, because the server does not report that it
// is ready.
func awaitServer(ctx context.Context, address string, gone <-chan error) error {
	slow := time.NewTimer(readyWithin)
	defer slow.Stop()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if who, _ := probeOnce(ctx, address); who == temporalListener {
			select {
			case err := <-gone: // the server that answers is not the supervisor's
				return errors.Join(errors.New("the Temporal server did not start"), err)
			default:
				return nil
			}
		}
		select {
		case err := <-gone:
			return errors.Join(errors.New("the Temporal server did not start"), err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-slow.C:
			return fmt.Errorf("the Temporal server did not answer on %s within %s", address, readyWithin)
		case <-ticker.C:
		}
	}
}

// tail returns the last n bytes of a log, for an error message.
func tail(r io.ReadSeeker, n int64) string {
	if end, err := r.Seek(0, io.SeekEnd); err == nil {
		r.Seek(max(end-n, 0), io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(r, n))
	return string(b)
}
