package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
)

// Key describes a key of a keyset.
type Key struct {
	ID      uint32 `json:"id"`
	Primary bool   `json:"primary,omitempty"` // it encrypts new content
	Enabled bool   `json:"enabled"`           // it may decrypt; Tink's own tool can disable it
	Type    string `json:"type"`              // Tink's type URL
}

// maxKeyBytes bounds a key file.
const maxKeyBytes = 1 << 20

// template returns the template of new keys: XAES-256-GCM. Its random nonces have 192 bits, so a key may encrypt any
// number of messages. With the 96 bits of AES-GCM the limit would be 2^32 messages (NIST SP 800-38D, 8.3), which a
// fleet that streams reaches in weeks.
var template = aead.XAES256GCM192BitNonceKeyTemplate

// Create makes a keyset with one key and writes it to a new file, which only its owner can read. It returns an error if
// the file exists.
func Create(path string) (Key, error) {
	manager := keyset.NewManager()
	id, err := manager.Add(template())
	if err == nil {
		err = manager.SetPrimary(id)
	}
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	data, list, err := encode(manager)
	if err != nil {
		return Key{}, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Key{}, fmt.Errorf("making the key file: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return Key{}, fmt.Errorf("writing the key file: %w", err)
	}
	return list[0], nil
}

// Add adds a new key to the keyset in a file. The key can decrypt at once, but encrypts nothing until Promote makes it
// the primary key.
func Add(path string) (added Key, err error) {
	err = edit(path, func(m *keyset.Manager) error {
		added.ID, err = m.Add(template())
		return err
	})
	return added, err
}

// Promote makes a key the primary key of the keyset in a file. The other keys can still decrypt.
func Promote(path string, id uint32) error {
	return edit(path, func(m *keyset.Manager) error { return m.SetPrimary(id) })
}

// List returns the keys of a file.
func List(path string) ([]Key, error) {
	handle, err := openKeyset(path)
	if err != nil {
		return nil, err
	}
	return keysOf(handle)
}

// openKeyset reads the keyset in a file.
func openKeyset(path string) (*keyset.Handle, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	handle, err := readKeyset(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return handle, nil
}

// readFile returns the content of a key file of at most maxKeyBytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyBytes+1))
	if err == nil && len(data) > maxKeyBytes {
		err = fmt.Errorf("%s is larger than %d bytes: is it a keyset?", path, maxKeyBytes)
	}
	return data, err
}

// readKeyset parses a keyset in Tink's JSON form. Its error leaves out the parser's own text, which may quote a key.
func readKeyset(data []byte) (*keyset.Handle, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(data)))
	if err != nil {
		return nil, errors.New("it is not a keyset in Tink's JSON form: make one with `everturn keys new`")
	}
	return handle, nil
}

// keysOf lists the keys of a keyset. It refuses keys whose ciphertexts do not begin with the key's ID, because Keys
// finds the key of a ciphertext by that ID.
func keysOf(handle *keyset.Handle) (list []Key, err error) {
	info := handle.KeysetInfo()
	for _, k := range info.GetKeyInfo() {
		if k.GetOutputPrefixType() != tinkpb.OutputPrefixType_TINK {
			return nil, fmt.Errorf("key %d has the output prefix %s: only TINK names the key in the ciphertext",
				k.GetKeyId(), k.GetOutputPrefixType())
		}
		list = append(list, Key{ID: k.GetKeyId(), Primary: k.GetKeyId() == info.GetPrimaryKeyId(),
			Enabled: k.GetStatus() == tinkpb.KeyStatusType_ENABLED, Type: k.GetTypeUrl()})
	}
	return list, nil
}

// edit applies change to the keyset in a file. It replaces the file as a whole, so that a reader gets either the old or
// the new keyset. It takes no lock: of two edits at the same time, one may be lost.
func edit(path string, change func(*keyset.Manager) error) error {
	handle, err := openKeyset(path)
	if err != nil {
		return err
	}
	manager := keyset.NewManagerFromHandle(handle)
	if err := change(manager); err != nil {
		return fmt.Errorf("changing the keys of %s: %w", path, err)
	}
	data, _, err := encode(manager)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link to the file stays a link
	}
	return replaceFile(path, data)
}

// replaceFile atomically replaces the file at path: it writes data to a new file of mode 0600 in the same directory,
// and renames that file.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // of mode 0600
	if err != nil {
		return fmt.Errorf("replacing the key file: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("replacing the key file: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// encode returns the manager's keyset in Tink's JSON form, and its keys.
func encode(manager *keyset.Manager) (data []byte, list []Key, err error) {
	handle, err := manager.Handle()
	if err != nil {
		return nil, nil, fmt.Errorf("making a keyset: %w", err)
	}
	var b bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&b)); err != nil {
		return nil, nil, fmt.Errorf("writing the keyset: %w", err)
	}
	b.WriteByte('\n')
	list, err = keysOf(handle)
	return b.Bytes(), list, err
}
