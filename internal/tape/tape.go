package tape

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/everturn/everturn/internal/jsonbound"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// Model is the model whose answers are recorded: see completion.Model.
type Model interface {
	Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error)
	Takes(p turn.Prompt, mediaType string) bool
}

// The bounds of a tape. They protect this program from tapes that other people have written.
const (
	maxFile      = 64 << 20 // bytes of one file
	maxValues    = 500_000  // JSON values of one file, of which each may take half a kilobyte of memory
	maxNesting   = 200      // of the values
	maxExchanges = 50       // answers to one request
	maxPositions = 10_000   // positions in the answers to a request that are kept, one for each session and request
	maxCompared  = 2_000    // files with which a request without an answer is compared
	version      = 1
)

// entry is a file of a tape: a request, and the answers that the model gave to it in the first session that sent it.
type entry struct {
	Version   int        `json:"version"`
	Session   string     `json:"session,omitempty"` // an opaque hash of the recorded session
	Request   request    `json:"request"`
	Exchanges []exchange `json:"exchanges"`
}

// request is the recorded form of a prompt. It leaves out what differs between runs: the IDs of turns and messages,
// the cache key, which identifies the session, and the environment, which differs by day and machine.
type request struct {
	Provider     string             `json:"provider"`
	API          turn.API           `json:"api,omitempty"`
	Model        string             `json:"model"`
	System       string             `json:"system,omitempty"`
	Messages     []message          `json:"messages"`
	Tools        []turn.WireTool    `json:"tools,omitempty"`
	Note         string             `json:"note,omitempty"`
	Settings     turn.ModelSettings `json:"settings,omitzero"`
	MaxTokens    int                `json:"max_tokens,omitempty"`
	OutputSchema json.RawMessage    `json:"output_schema,omitempty"`
}

type message struct {
	turn.Message
	Items *turn.ProviderItems `json:"items,omitempty"`
}

// exchange is one answer: the pieces of the stream, and the completion or the error at its end.
type exchange struct {
	Stream     []delta          `json:"stream,omitempty"`
	Completion *turn.Completion `json:"completion,omitempty"`
	Error      *failure         `json:"error,omitempty"`
}

type delta struct {
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
}

type failure struct {
	Code       turn.Code     `json:"code"`
	Message    string        `json:"message"`
	RetryAfter time.Duration `json:"retry_after,omitempty"` // nanoseconds
	Status     int           `json:"status,omitempty"`
	OfModel    bool          `json:"of_model,omitempty"`
	Refused    bool          `json:"refused,omitempty"`
}

// Tape is a model that records the answers of another model or replays recorded ones. It is safe for concurrent use.
type Tape struct {
	replays bool
	dir     string
	next    Model
	secrets *redact.Redactor
	log     *slog.Logger

	mu     sync.Mutex              // guards the files, and played
	played *lru.Cache[string, int] // the number of answers that a session got to a request
}

// Open opens the tape in the folder dir. If replays is false, the tape records the answers of next. If it is true,
// the tape answers in place of next, and asks next only which media it accepts. Secrets are redacted in all files, but
// next must redact what it streams, because a secret may be split over several pieces.
func Open(dir string, replays bool, next Model, secrets *redact.Redactor, log *slog.Logger) (*Tape, error) {
	if !replays {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making the folder of the tape: %w", err)
		}
	} else if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("there is no tape in %s: record one with llm.tape = \"record:%s\"", dir, dir)
	}
	played, err := lru.New[string, int](maxPositions)
	return &Tape{replays: replays, dir: dir, next: next, secrets: secrets, log: log, played: played}, err
}

// Takes implements Model.
func (t *Tape) Takes(p turn.Prompt, mediaType string) bool { return t.next.Takes(p, mediaType) }

// Infer implements Model: it replays an answer, or gets one from the recorded model and records it.
func (t *Tape) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	requestJSON, name, err := t.request(p)
	if err != nil {
		return turn.Completion{}, turn.NewError(turn.CodeInternal, err, "the request cannot be written to a tape")
	}
	if t.replays {
		return t.replay(p, requestJSON, name, sink)
	}
	recording := &recorder{sink: sink}
	answer, err := t.next.Infer(ctx, p, recording)
	if ctx.Err() == nil { // otherwise the answer may be incomplete because this side cancelled the inference
		if err := t.record(p.CacheKey, name, requestJSON, recording.stream, answer, err); err != nil {
			t.log.Error("an answer is not on the tape", "tape", t.dir, "error", err)
		}
	}
	return answer, err
}

// request returns the recorded form of the prompt as JSON, and the name of its file, which is a hash of that JSON.
func (t *Tape) request(p turn.Prompt) ([]byte, string, error) {
	r := request{Provider: p.Provider, API: p.API, Model: p.Model, System: strings.TrimSuffix(p.System, p.Environment),
		Tools: p.Tools, Note: p.Note,
		Settings: p.Settings, MaxTokens: p.MaxTokens, OutputSchema: p.OutputSchema}
	for _, m := range p.Messages {
		recorded := message{Message: m, Items: m.Items}
		recorded.ID, recorded.TurnID = "", ""
		r.Messages = append(r.Messages, recorded)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, "", err
	}
	b = []byte(t.secrets.JSON(string(b)))
	sum := sha256.Sum256(b)
	return b, hex.EncodeToString(sum[:16]) + ".json", nil
}

// record adds an answer to the file of its request. failed is the error with which the inference ended, if it did;
// answer is then ignored. Only answers to the session that sent the request first are recorded.
func (t *Tape) record(session, name string, requestJSON []byte, stream []delta, answer turn.Completion,
	failed error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, err := t.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		e = entry{Version: version, Session: session}
		err = json.Unmarshal(requestJSON, &e.Request)
	}
	if err != nil || e.Session != session || len(e.Exchanges) >= maxExchanges {
		return err
	}
	x := exchange{Stream: stream}
	if failed == nil {
		x.Completion = &answer
	} else {
		x.Error = failureOf(failed)
	}
	e.Exchanges = append(e.Exchanges, x)
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	lines.SetIndent("", "  ")
	if err := lines.Encode(e); err != nil {
		return err
	}
	text := t.secrets.JSON(b.String())
	if err := checkFile(name, []byte(text)); err != nil {
		return err
	}
	return replace(filepath.Join(t.dir, name), text)
}

// replace writes a file atomically: a reader, or a worker after a crash, finds either the old text or the new.
func replace(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tape-*")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// checkFile returns an error if the content of a file exceeds the bounds of a tape.
func checkFile(name string, content []byte) error {
	if len(content) > maxFile {
		return fmt.Errorf("%s is larger than %d MiB", name, maxFile>>20)
	}
	if scan := new(jsonbound.Scanner); scan.Add(content, maxNesting, maxValues) != jsonbound.None {
		return fmt.Errorf("%s has more than %d values, or they are nested deeper than %d", name, maxValues, maxNesting)
	}
	return nil
}

// read reads a file of the tape. The error is fs.ErrNotExist if there is no such file.
func (t *Tape) read(name string) (e entry, err error) {
	f, err := os.OpenFile(filepath.Join(t.dir, name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would block
	if err != nil {
		return e, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return e, errors.Join(fmt.Errorf("%s is not a file of a tape", name), err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return e, err
	}
	if err := checkFile(name, b); err != nil {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("%s is not a file of a tape: %w", name, err)
	}
	if e.Version != version {
		return e, fmt.Errorf("%s has the version %d; this program reads %d", name, e.Version, version)
	}
	return e, nil
}

// replay returns the recorded answer to a prompt and sends its pieces to sink. requestJSON and name are the
// results of Tape.request. A session that sends the same request again gets the next answer, and the last one if there
// are no more.
func (t *Tape) replay(p turn.Prompt, requestJSON []byte, name string, sink turn.Sink) (turn.Completion, error) {
	t.mu.Lock()
	e, err := t.read(name)
	position := p.CacheKey + " " + name
	n, _ := t.played.Get(position)
	t.played.Add(position, n+1)
	t.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		if e, err = t.answerByPosition(p); errors.Is(err, fs.ErrNotExist) {
			return turn.Completion{}, turn.NewError(turn.CodeLLMRejected, nil, t.describeMissing(p, requestJSON, name))
		}
	}
	if err == nil && len(e.Exchanges) == 0 {
		err = fmt.Errorf("%s has no answer", name)
	}
	if err != nil {
		return turn.Completion{}, turn.NewError(turn.CodeLLMRejected, err,
			"the tape in "+t.dir+" cannot be read: "+err.Error())
	}
	x := e.Exchanges[min(n, len(e.Exchanges)-1)]
	for _, d := range x.Stream {
		if d.Text != "" {
			sink.Text(d.Text)
		}
		if d.Reasoning != "" {
			sink.Reasoning(d.Reasoning)
		}
	}
	switch {
	case x.Error != nil:
		return turn.Completion{}, x.Error.err()
	case x.Completion == nil:
		return turn.Completion{}, turn.NewError(turn.CodeLLMRejected, nil,
			fmt.Sprintf("the tape's file %s has neither a completion nor an error", name))
	}
	return *x.Completion, nil
}

// describeMissing returns the message for a request to which the tape has no answer. It says how the request differs
// from the most similar one on the tape.
func (t *Tape) describeMissing(p turn.Prompt, requestJSON []byte, name string) string {
	text := fmt.Sprintf("the tape in %s has no answer to this request (%s for model %s, %d messages", t.dir, name,
		turn.Truncate(p.Model, 60), len(p.Messages))
	if n := len(p.Messages); n > 0 {
		text += fmt.Sprintf(", the last: %q", turn.Truncate(p.Messages[n-1].Text, 80))
	}
	text += ")"
	if near, at := t.nearest(requestJSON); near != nil {
		text += fmt.Sprintf("; the most similar one has %q in place of %q", excerpt(near, at), excerpt(requestJSON, at))
	}
	return text + fmt.Sprintf(`. Record it with llm.tape = "record:%s"`, t.dir)
}

// nearest returns the recorded request with the longest beginning in common with requestJSON, and the length of that
// beginning in bytes. It returns nil if the tape has no requests.
func (t *Tape) nearest(requestJSON []byte) (near []byte, at int) {
	names, err := filepath.Glob(filepath.Join(t.dir, "*.json"))
	if err != nil {
		return nil, 0
	}
	for _, name := range names[:min(len(names), maxCompared)] {
		e, err := t.read(filepath.Base(name))
		if err != nil {
			continue
		}
		b, err := json.Marshal(e.Request)
		if n := commonPrefix(b, requestJSON); err == nil && (near == nil || n > at) {
			near, at = b, n
		}
	}
	return near, at
}

// commonPrefix returns how many bytes at the beginning of a and b are equal.
func commonPrefix(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// excerpt returns the text around the offset at.
func excerpt(b []byte, at int) string {
	return strings.ToValidUTF8(string(b[max(0, at-20):min(len(b), at+40)]), "")
}

// failureOf returns the recorded form of an error.
func failureOf(err error) *failure {
	var e *turn.Error
	if !errors.As(err, &e) {
		e = turn.NewError(turn.CodeOf(err), nil, err.Error())
	}
	return &failure{e.Code, e.Message, e.RetryAfter, e.Status, e.OfModel, e.Refused}
}

// err returns the recorded error.
func (f failure) err() error {
	return &turn.Error{Code: f.Code, Message: f.Message, RetryAfter: f.RetryAfter, Status: f.Status, OfModel: f.OfModel,
		Refused: f.Refused}
}

// recorder is a sink that keeps the non-empty pieces that it passes on to another sink.
type recorder struct {
	sink   turn.Sink
	stream []delta
}

// Text implements turn.Sink.
func (r *recorder) Text(s string) {
	if s != "" {
		r.stream = append(r.stream, delta{Text: s})
	}
	r.sink.Text(s)
}

// Reasoning implements turn.Sink.
func (r *recorder) Reasoning(s string) {
	if s != "" {
		r.stream = append(r.stream, delta{Reasoning: s})
	}
	r.sink.Reasoning(s)
}
