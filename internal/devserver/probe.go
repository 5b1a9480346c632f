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

// settle is how long a server that is ending may take to release its port.
const settle = 300 * time.Millisecond

// probe returns the kind of program that listens on the address and, for Temporal, its version. It checks a stranger a
// second time after settle: a killed server's port accepts connections for a moment after its end.
func probe(ctx context.Context, address string) (listener, string) {
	who, version := look(ctx, address)
	if who != otherListener {
		return who, version
	}
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return who, version
	case <-timer.C:
		return look(ctx, address)
	}
}

func look(ctx context.Context, address string) (listener, string) {
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

// awaitServer waits until Temporal answers on the address or the supervisor has ended. It polls, because the server
// reports no event.
func awaitServer(ctx context.Context, address string, gone <-chan error) error {
	slow := time.NewTimer(readyWithin)
	defer slow.Stop()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if who, _ := look(ctx, address); who == temporalListener {
			select {
			case err := <-gone: // the server that answers belongs to someone else
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

// tail returns the last n bytes of a log, for an error's message.
func tail(r io.ReadSeeker, n int64) string {
	if end, err := r.Seek(0, io.SeekEnd); err == nil {
		r.Seek(max(end-n, 0), io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(r, n))
	return string(b)
}
