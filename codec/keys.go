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

// The errors of decryption. They do not end a turn: its workflow task fails, and the server repeats it until the worker
// has the key.
var (
	// ErrUnknownKey means that the keyset does not have the key. A later version of the key file may have it.
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
	// refreshEvery is how often Keys reads its file again, in the background, while it is in use.
	refreshEvery = 5 * time.Second
	// missEvery is the shortest time after which an unknown key makes Keys read its file again at once.
	missEvery = time.Second
)

// Keys encrypts and decrypts with a keyset. It is safe for concurrent use and needs no closing.
type Keys struct {
	path    string // the key file; empty if the keys come from elsewhere and never change
	plain   bool   // payloads are decrypted but not encrypted
	current atomic.Pointer[loadedKeyset]

	reading sync.Mutex              // held while the file is read
	learn   func(secrets ...string) // see Learn; may be nil
}

// loadedKeyset is a keyset that was read.
type loadedKeyset struct {
	data    []byte // the content of the file
	aead    tink.AEAD
	list    []Key
	secrets []string  // the keys themselves, in base64
	at      time.Time // when the file was last read, even if it had not changed or could not be read
	problem error     // why the file could not be read at that time; nil if it could
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
		set, err := parseKeyset([]byte(cfg.Keys.Reveal()))
		if err != nil {
			return nil, invalid("encryption.keys: %w", err)
		}
		k.current.Store(set)
		return k, nil
	}
	return nil, nil
}

// OpenFile reads the keys in a key file, as `everturn keys` and Tink's own tool write it. The error is
// config.ErrInvalid.
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

// parseKeyset reads a keyset in Tink's JSON form. It refuses keys that Keys cannot use.
func parseKeyset(data []byte) (*loadedKeyset, error) {
	handle, err := readKeyset(data)
	if err != nil {
		return nil, err
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("the keyset does not encrypt (its keys must be of Tink's type AEAD): %w", err)
	}
	list, err := keysOf(handle)
	if err != nil {
		return nil, err
	}
	set := &loadedKeyset{data: data, aead: primitive, list: list, at: time.Now()}
	for _, key := range insecurecleartextkeyset.KeysetMaterial(handle).GetKey() {
		set.secrets = append(set.secrets, base64.StdEncoding.EncodeToString(key.GetKeyData().GetValue()))
	}
	return set, nil
}

// read returns the keyset of the file. before is the keyset that was read last, or nil: if the file has not changed,
// read returns a copy of it with a new time.
func (k *Keys) read(before *loadedKeyset) (*loadedKeyset, error) {
	data, err := readFile(k.path)
	if err != nil {
		return nil, err
	}
	if before != nil && bytes.Equal(data, before.data) {
		same := *before
		same.at, same.problem = time.Now(), nil
		return &same, nil
	}
	set, err := parseKeyset(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.path, err)
	}
	return set, nil
}

// refresh replaces the current keyset by the file's keyset. If the file cannot be read, the keys stay and refresh
// records the problem. New keys go to k.learn before they are used. The caller holds k.reading.
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

// keyset returns the current keyset. If the file was last read more than refreshEvery ago, keyset starts to read it in
// the background. It does not wait, because a workflow task may be waiting for it.
func (k *Keys) keyset() *loadedKeyset {
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
	sealed, err := k.keyset().aead.Encrypt(plain, associated)
	if err != nil {
		return nil, fmt.Errorf("encrypting: %w", err)
	}
	return sealed, nil
}

// Open decrypts a ciphertext of Seal. If the keyset lacks its key, or has disabled it, Open reads the file again unless
// it was read within the last second. The error is ErrUnknownKey or ErrCiphertext.
func (k *Keys) Open(sealed, associated []byte) ([]byte, error) {
	id, ok := keyID(sealed)
	if !ok {
		return nil, fmt.Errorf("decrypting %d bytes: %w: they do not begin with a key's ID", len(sealed), ErrCiphertext)
	}
	set := k.keyset()
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

// unknown returns the error for a ciphertext whose key the keyset does not have, or has disabled.
func (l *loadedKeyset) unknown(id uint32) error {
	err := fmt.Errorf("decrypting: %w %d: add it to the keyset of this process (it has %s)", ErrUnknownKey, id, l.names())
	if l.problem != nil {
		err = fmt.Errorf("%w; the key file could not be read again: %w", err, l.problem)
	}
	return err
}

// has reports whether the keyset can decrypt with the key of this ID.
func (l *loadedKeyset) has(id uint32) bool {
	for _, k := range l.list {
		if k.ID == id && k.Enabled {
			return true
		}
	}
	return false
}

// names lists the IDs of the keys for an error message.
func (l *loadedKeyset) names() string {
	var b bytes.Buffer
	for i, k := range l.list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, k.ID)
	}
	return b.String()
}

// Secrets returns the keys in base64, as they are in the file, so that logs can redact them.
func (k *Keys) Secrets() []string { return k.current.Load().secrets }

// Learn calls learn with the Secrets now, and again whenever the file has other keys, before these are used.
func (k *Keys) Learn(learn func(secrets ...string)) {
	k.reading.Lock()
	defer k.reading.Unlock()
	k.learn = learn
	learn(k.Secrets()...)
}

// prefixBytes is the length of Tink's prefix of a ciphertext: 1, and the key's ID in big endian.
const prefixBytes = 5

// keyID returns the ID of the key that encrypted a ciphertext. It returns false if the ciphertext has no such prefix.
func keyID(sealed []byte) (uint32, bool) {
	if len(sealed) < prefixBytes || sealed[0] != 1 {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed[1:prefixBytes]), true
}
