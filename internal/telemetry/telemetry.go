package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// Options configure the telemetry of a worker. The destinations of traces and metrics, the sampling of traces, and
// whether they have contents are set by OpenTelemetry's own environment variables (OTEL_*) of the process.
type Options struct {
	Redact   func(string) string // of the messages, arguments and results in the spans
	Provider string              // of inferences that name none
	Worker   string              // the worker's identity
	Version  string              // of the program
	Log      *slog.Logger
}

// Telemetry exports traces and metrics. Both are optional.
type Telemetry struct {
	options  Options
	contents bool // the spans have messages, arguments and results
	ledger   Ledger
	traces   *sdktrace.TracerProvider // nil: no traces
	tracer   trace.Tracer
	ended    chan string        // the turns whose trace is still to be written
	quit     chan struct{}      // closed by Close
	written  chan struct{}      // closed when all traces are written after quit
	stop     context.CancelFunc // stops the writing of traces

	meters   *sdkmetric.MeterProvider // nil: no metrics
	meter    metric.Meter
	measured instruments
	address  net.Addr
	server   *http.Server
}

// scope is the instrumentation scope of our spans and metrics.
const scope = "github.com/everturn/everturn"

// New returns the telemetry that the environment configures, or nil if it configures none. It sets OpenTelemetry's
// error handler, which is global. The error names the variable that is wrong.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	spans, metrics := exports("TRACES"), exports("METRICS")
	if !spans && !metrics {
		return nil, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("exporting telemetry", "error", err) }))
	res, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("everturn-worker"),
		semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Worker)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &Telemetry{options: o, contents: wantsContents()}
	if spans {
		err = t.openTraces(ctx, res)
	}
	if err == nil && metrics {
		err = t.openMetrics(ctx, res)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close(ctx))
	}
	return t, nil
}

// exports reports whether the environment configures the export of a signal, TRACES or METRICS. If no variable does,
// nothing is exported; by default, OpenTelemetry would export to port 4318 of this machine.
func exports(signal string) bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	if exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// wantsContents reports whether the environment asks for messages, arguments and results in the spans, by the variable
// of OpenTelemetry's instrumentations for GenAI.
func wantsContents() bool {
	switch strings.ToLower(os.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")) {
	case "true", "span_only", "span_and_event":
		return true
	}
	return false
}

// secretHeader matches the names of headers whose values are secret, and secretShape values that are secret under any
// name: Honeycomb's key, for example, is in x-honeycomb-team.
var (
	secretHeader = regexp.MustCompile(`(?i)auth|key|token|secret|pass|credential|cookie`)
	secretShape  = regexp.MustCompile(`^[A-Za-z0-9+/_=.~-]{16,}$`)
)

// Credentials returns the secret values of the headers that the exporters send, so that they can be redacted. For a
// value such as "Bearer token", it also returns the token alone. Some of the results may be empty.
func Credentials() (secrets []string) {
	for _, signal := range []string{"", "TRACES_", "METRICS_"} {
		for header := range strings.SplitSeq(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"HEADERS"), ",") {
			name, value, _ := strings.Cut(header, "=")
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
			value = strings.TrimSpace(value)
			if !secretHeader.MatchString(name) && !secretShape.MatchString(value) {
				continue // such as the name of a data set, which must not be redacted in texts for the model
			}
			_, token, _ := strings.Cut(value, " ")
			secrets = append(secrets, value, token)
		}
	}
	return secrets
}

// openTraces opens the exporter of traces that the environment configures.
func (t *Telemetry) openTraces(ctx context.Context, res *resource.Resource) error {
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("opening the exporter of traces (OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_*): %w", err)
	}
	t.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithIDGenerator(derivedIDs{}),
		sdktrace.WithBatcher(exporter, sdktrace.WithBlocking()))
	t.tracer = t.traces.Tracer(scope, trace.WithSchemaURL(schemaURL), trace.WithInstrumentationVersion(t.options.Version))
	return nil
}

// sdkScope is the instrumentation scope of the Temporal SDK's metrics.
const sdkScope = "temporal-sdk-go"

// openMetrics creates the metrics. The exporter that the environment configures gets them, or Prometheus scrapes them.
func (t *Telemetry) openMetrics(ctx context.Context, res *resource.Resource) error {
	var reader sdkmetric.Reader
	var err error
	if os.Getenv("OTEL_METRICS_EXPORTER") == "prometheus" {
		reader, err = t.servePrometheus()
	} else if reader, err = autoexport.NewMetricReader(ctx); err != nil {
		err = fmt.Errorf("opening the exporter of metrics (OTEL_METRICS_EXPORTER, OTEL_EXPORTER_OTLP_*): %w", err)
	}
	if err != nil {
		return err
	}
	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(reader),
		sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Scope: scopeOf(sdkScope)},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: sdkBounds}},
		)))
	t.meter = t.meters.Meter(scope, metric.WithSchemaURL(schemaURL))
	t.measured, err = newInstruments(t.meter)
	return err
}

// servePrometheus serves the metrics until Close, at the address of OpenTelemetry's variables. Other than its exporter
// for Prometheus, it adds the metrics of Go and of the process, and none about scopes. The meter provider must use the
// returned reader.
func (t *Telemetry) servePrometheus() (sdkmetric.Reader, error) {
	address := net.JoinHostPort(cmp.Or(os.Getenv("OTEL_EXPORTER_PROMETHEUS_HOST"), "localhost"),
		cmp.Or(os.Getenv("OTEL_EXPORTER_PROMETHEUS_PORT"), "9464"))
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_PROMETHEUS_HOST and _PORT are %q: %w", address, err)
	}
	mux := http.NewServeMux()
	handler := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, handler))
	t.address, t.server = listener.Addr(), &http.Server{Handler: mux, ReadHeaderTimeout: closeWithin}
	go func() {
		if err := t.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.options.Log.Error("serving metrics", "error", err)
		}
	}()
	t.options.Log.Info("metrics are served", "address", "http://"+t.address.String()+"/metrics")
	return reader, nil
}

// closeWithin bounds the last export in Close.
const closeWithin = 5 * time.Second

// Close writes the remaining traces and exports the remaining data, for at most five seconds. It logs problems and
// always returns nil.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if t.stop != nil {
		close(t.quit)
		select {
		case <-t.written:
		case <-ctx.Done():
		}
		t.stop()
	}
	var errs []error
	if t.traces != nil {
		errs = append(errs, t.traces.Shutdown(ctx))
	}
	if t.meters != nil {
		errs = append(errs, t.meters.Shutdown(ctx))
	}
	if t.server != nil {
		errs = append(errs, t.server.Close())
	}
	if err := errors.Join(errs...); err != nil {
		t.options.Log.Warn("exporting the last telemetry", "error", err)
	}
	return nil
}
