package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/everturn/everturn/config"
)

// The errors of decryption. No turn ends by them: its task fails, and runs again until the key is there.
var (
	// ErrUnknownKey means that the keyset does not have the key. The key may come: see Keys.
	ErrUnknownKey = errors.New("unknown encryption key")
	// ErrNamespace means that the payload was encrypted for another namespace.
	ErrNamespace = errors.New("encrypted for another namespace")
	// ErrCiphertext means that the ciphertext was cut or changed, or that another key of the same ID encrypted it.
	ErrCiphertext = errors.New("damaged ciphertext")
)

// IsError reports whether err is one of the errors of decryption. Their texts hold no content.
func IsError(err error) bool {
	return errors.Is(err, ErrUnknownKey) || errors.Is(err, ErrNamespace) || errors.Is(err, ErrCiphertext)
}

const (
	// refreshEvery is the time after which a use of Keys makes it read its file again, in the background.
	refreshEvery = 5 * time.Second
	// missEvery bounds how often an unknown key makes Keys read its file at once.
	missEvery = time.Second
)

// Keys encrypts and decrypts with a keyset. It is safe for concurrent use and needs no closing.
type Keys struct {
	path    string // empty: the keyset does not change
	plain   bool   // payloads are not encrypted
	current atomic.Pointer[loaded]

	reading sync.Mutex // held while the file is read
	learn   func(secrets ...string)
}

// loaded is a keyset as it was read.
type loaded struct {
	data    []byte // of the file
	aead    tink.AEAD
	list    []Key
	secrets []string
	at      time.Time // of the last look at the file
	problem error     // of the last look
}

// Open returns the configured keys, or nil if the configuration has none. The error is config.ErrInvalid for a keyset
// that cannot be read.
func Open(cfg config.Encryption) (*Keys, error) {
	switch {
	case cfg.KeyFile != "":
		k, err := OpenFile(cfg.KeyFile)
		if err == nil {
			k.plain = cfg.DecryptOnly
		}
		return k, err
	case cfg.Keys != "":
		k := &Keys{plain: cfg.DecryptOnly}
		set, err := parse([]byte(cfg.Keys.Reveal()))
		if err != nil {
			return nil, invalid("encryption.keys: %w", err)
		}
		k.current.Store(set)
		return k, nil
	}
	return nil, nil
}

// OpenFile returns the keys of a file, which `everturn keys` and Tink's own tool write.
func OpenFile(path string) (*Keys, error) {
	k := &Keys{path: path}
	set, err := k.read(nil)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, invalid("encryption.key_file: %w: make one with `everturn keys new`", err)
		}
		return nil, invalid("encryption.key_file: %w", err)
	}
	k.current.Store(set)
	return k, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", config.ErrInvalid, fmt.Errorf(format, args...))
}

// parse reads a keyset in Tink's JSON form.
func parse(data []byte) (*loaded, error) {
	handle, err := readKeyset(data)
	if err != nil {
		return nil, err
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("the keyset does not encrypt (its keys must be of Tink's type AEAD): %w", err)
	}
	list, err := keysOf(handle)
	set := &loaded{data: data, aead: primitive, list: list, at: time.Now()}
	for _, key := range insecurecleartextkeyset.KeysetMaterial(handle).GetKey() {
		set.secrets = append(set.secrets, base64.StdEncoding.EncodeToString(key.GetKeyData().GetValue()))
	}
	return set, err
}

// read returns the file's keyset, which is before if the file has not changed. before may be nil.
func (k *Keys) read(before *loaded) (*loaded, error) {
	data, err := readFile(k.path)
	if err != nil {
		return nil, err
	}
	if before != nil && bytes.Equal(data, before.data) {
		same := *before
		same.at, same.problem = time.Now(), nil
		return &same, nil
	}
	set, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.path, err)
	}
	return set, nil
}

// refresh reads the file again. If that fails, the keys stay as they were. The caller holds k.reading.
func (k *Keys) refresh() {
	before := k.current.Load()
	set, err := k.read(before)
	if err != nil {
		same := *before
		same.at, same.problem = time.Now(), err
		set = &same
	}
	if k.learn != nil && !bytes.Equal(set.data, before.data) {
		k.learn(set.secrets...)
	}
	k.current.Store(set)
}

// set returns the keyset. It never waits for the file: a workflow task may be waiting.
func (k *Keys) set() *loaded {
	set := k.current.Load()
	if k.path != "" && time.Since(set.at) > refreshEvery && k.reading.TryLock() {
		go func() {
			defer k.reading.Unlock()
			k.refresh()
		}()
	}
	return set
}

// Seal encrypts with the primary key. The ciphertext can be opened only with the same associated data.
func (k *Keys) Seal(plain, associated []byte) ([]byte, error) {
	sealed, err := k.set().aead.Encrypt(plain, associated)
	if err != nil {
		return nil, fmt.Errorf("encrypting: %w", err)
	}
	return sealed, nil
}

// Open decrypts what Seal has encrypted. ErrUnknownKey, ErrCiphertext.
func (k *Keys) Open(sealed, associated []byte) ([]byte, error) {
	id, ok := keyID(sealed)
	if !ok {
		return nil, fmt.Errorf("decrypting %d bytes: %w: they do not begin with a key's ID", len(sealed), ErrCiphertext)
	}
	set := k.set()
	if !set.has(id) && k.path != "" && time.Since(set.at) > missEvery {
		k.reading.Lock()
		k.refresh()
		k.reading.Unlock()
		set = k.current.Load()
	}
	if !set.has(id) {
		return nil, set.unknown(id)
	}
	plain, err := set.aead.Decrypt(sealed, associated)
	if err != nil {
		return nil, fmt.Errorf("decrypting %d bytes with key %d: %w", len(sealed), id, ErrCiphertext)
	}
	return plain, nil
}

func (l *loaded) unknown(id uint32) error {
	err := fmt.Errorf("decrypting: %w %d: add it to the keyset of this process (it has %s)", ErrUnknownKey, id, l.names())
	if l.problem != nil {
		err = fmt.Errorf("%w; the key file could not be read again: %w", err, l.problem)
	}
	return err
}

func (l *loaded) has(id uint32) bool {
	for _, k := range l.list {
		if k.ID == id && k.Enabled {
			return true
		}
	}
	return false
}

func (l *loaded) names() string {
	var b bytes.Buffer
	for i, k := range l.list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, k.ID)
	}
	return b.String()
}

// Secrets returns the keys as they are in the file, for the redaction of logs.
func (k *Keys) Secrets() []string { return k.current.Load().secrets }

// Learn calls learn with the secrets, and again when the file has other keys, before they are used.
func (k *Keys) Learn(learn func(secrets ...string)) {
	k.reading.Lock()
	defer k.reading.Unlock()
	k.learn = learn
	learn(k.Secrets()...)
}

// prefixBytes is the length of Tink's prefix of a ciphertext: 1, and the key's ID in big endian.
const prefixBytes = 5

// keyID returns the ID of the key of a ciphertext.
func keyID(sealed []byte) (uint32, bool) {
	if len(sealed) < prefixBytes || sealed[0] != 1 {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed[1:prefixBytes]), true
}
