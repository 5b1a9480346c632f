package workerprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
)

// healthcheckWithin bounds a health check. A worker answers within half of this time.
const healthcheckWithin = 10 * time.Second

// healthcheck returns an error unless the running worker of this configuration is ready. It requests the worker's
// /readyz, for images without curl.
func healthcheck(ctx context.Context, cfg config.Worker) error {
	host, port, err := net.SplitHostPort(cfg.HealthListen())
	if err != nil {
		return temporalconn.WithKind(config.ErrInvalid, errors.New("worker.health_address is not set, so no worker can be asked: set it in agent.toml"))
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req) // without the environment's proxy
	if err != nil {
		return fmt.Errorf("asking the worker: %w", err)
	}
	defer resp.Body.Close()
	var answer struct {
		OK      bool   `json:"ok"`
		Problem string `json:"problem"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("reading the worker's answer: %w", err)
	}
	if !answer.OK {
		return errors.New("the worker is not ready: " + answer.Problem)
	}
	return nil
}
