package codec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/config"
)

const canary = "the canary sings at noon"

// newKeys makes a key file and opens it.
func newKeys(t *testing.T) (keys *Keys, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.json")
	_, err := Create(path)
	require.NoError(t, err)
	keys, err = OpenFile(path)
	require.NoError(t, err)
	return keys, path
}

func TestAPayloadIsReadableOnlyWithItsKeyAndNamespace(t *testing.T) {
	keys, path := newKeys(t)
	p, err := keys.DataConverter("ns").ToPayload(canary)
	require.NoError(t, err)
	assert.NotContains(t, p.String(), canary)
	assert.Equal(t, Encoding, string(p.Metadata["encoding"]))
	assert.Equal(t, "ns", string(p.Metadata[MetadataNamespace]))

	again, err := OpenFile(path)
	require.NoError(t, err)
	var got string
	require.NoError(t, again.DataConverter("ns").FromPayload(p, &got), "another process with the same file")
	assert.Equal(t, canary, got)

	other, _ := newKeys(t)
	assert.ErrorIs(t, other.DataConverter("ns").FromPayload(p, &got), ErrUnknownKey)
	assert.ErrorIs(t, keys.DataConverter("elsewhere").FromPayload(p, &got), ErrNamespace)
	moved := &commonpb.Payload{Data: p.Data, Metadata: map[string][]byte{"encoding": []byte(Encoding),
		MetadataNamespace: []byte("elsewhere")}}
	assert.ErrorIs(t, keys.DataConverter("elsewhere").FromPayload(moved, &got), ErrCiphertext,
		"the namespace is authenticated, not only written")
	for _, n := range []int{0, 3, 5, len(p.Data) - 1} {
		cut := &commonpb.Payload{Data: p.Data[:n], Metadata: p.Metadata}
		assert.ErrorIs(t, keys.DataConverter("ns").FromPayload(cut, &got), ErrCiphertext, n)
	}
}

func TestAProcessMayOnlyDecrypt(t *testing.T) {
	keys, path := newKeys(t)
	sealed, err := keys.DataConverter("ns").ToPayload(canary)
	require.NoError(t, err)
	reader, err := Open(config.Encryption{KeyFile: path, DecryptOnly: true})
	require.NoError(t, err)
	var got string
	require.NoError(t, reader.DataConverter("ns").FromPayload(sealed, &got))
	assert.Equal(t, canary, got)
	plain, err := reader.DataConverter("ns").ToPayload(canary)
	require.NoError(t, err)
	assert.Contains(t, string(plain.Data), canary)
}

func TestPlainPayloadsAreReadAsTheyAre(t *testing.T) {
	keys, _ := newKeys(t)
	for _, v := range []any{canary, nil, []byte("bytes"), map[string]any{"a": 1.0}} {
		p, err := converter.GetDefaultDataConverter().ToPayload(v)
		require.NoError(t, err)
		got, err := keys.Payloads("ns").Decode([]*commonpb.Payload{p})
		require.NoError(t, err)
		assert.Equal(t, p.String(), got[0].String())
	}
}

func TestFailuresAreEncrypted(t *testing.T) {
	keys, _ := newKeys(t)
	fc := FailureConverter(keys.DataConverter("ns"))
	failure := fc.ErrorToFailure(temporal.NewApplicationError(canary, "Type", canary))
	assert.NotContains(t, failure.String(), canary)
	assert.ErrorContains(t, fc.FailureToError(failure), canary)
}

func TestAnInputWithoutItsKeyIsAFailureThatTheServerRetries(t *testing.T) {
	keys, _ := newKeys(t)
	fc := FailureConverter(keys.DataConverter("ns"))
	for _, kind := range []error{ErrUnknownKey, ErrNamespace, ErrCiphertext} {
		info := fc.ErrorToFailure(fmt.Errorf("unable to decode: %w", kind)).GetApplicationFailureInfo()
		assert.Equal(t, KeyErrorType, info.GetType())
		assert.False(t, info.GetNonRetryable())
	}
	own := temporal.NewApplicationErrorWithCause("the journal", "Type", ErrUnknownKey)
	assert.Equal(t, "Type", fc.ErrorToFailure(own).GetApplicationFailureInfo().GetType())
}

func TestAWorkersTaskFailsIfAPayloadCannotBeDecrypted(t *testing.T) {
	keys, _ := newKeys(t)
	other, _ := newKeys(t)
	p, err := keys.DataConverter("ns").ToPayloads(canary)
	require.NoError(t, err)
	dc := other.WorkerDataConverter("ns")
	var got string
	assert.Panics(t, func() { _ = dc.FromPayloads(p, &got) })
	assert.Panics(t, func() { _ = dc.FromPayload(p.Payloads[0], &got) })
	var wrong int
	assert.Error(t, keys.WorkerDataConverter("ns").FromPayloads(p, &wrong), "content of another type is no panic")
}

func TestRotationInTwoSteps(t *testing.T) {
	keys, path := newKeys(t)
	old, err := keys.Seal([]byte(canary), nil)
	require.NoError(t, err)
	first := keys.current.Load().list[0].ID

	added, err := Add(path)
	require.NoError(t, err)
	list, err := List(path)
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.True(t, list[0].Primary && !list[1].Primary, "an added key does not encrypt")

	require.NoError(t, Promote(path, added.ID))
	promoted, err := OpenFile(path)
	require.NoError(t, err)
	sealed, err := promoted.Seal([]byte(canary), nil)
	require.NoError(t, err)
	id, ok := keyID(sealed)
	assert.True(t, ok)
	assert.Equal(t, added.ID, id)
	assert.NotEqual(t, first, id)
	plain, err := promoted.Open(old, nil)
	require.NoError(t, err, "the old key goes on decrypting")
	assert.Equal(t, canary, string(plain))

	keys.current.Load().at = time.Time{} // the file was looked at long ago
	plain, err = keys.Open(sealed, nil)
	require.NoError(t, err, "an unknown key makes the process read its file")
	assert.Equal(t, canary, string(plain))
	assert.Error(t, Promote(path, 1), "a key that is not there")
}

func TestTheFileIsReadAgainInTheBackground(t *testing.T) {
	keys, path := newKeys(t)
	added, err := Add(path)
	require.NoError(t, err)
	require.NoError(t, Promote(path, added.ID))
	keys.current.Load().at = time.Time{}
	require.Eventually(t, func() bool {
		sealed, err := keys.Seal([]byte(canary), nil)
		id, ok := keyID(sealed)
		return err == nil && ok && id == added.ID
	}, 10*time.Second, time.Millisecond)

	require.NoError(t, os.WriteFile(path, []byte("{damaged"), 0o600))
	keys.current.Load().at = time.Time{}
	sealed, err := keys.Seal([]byte(canary), nil)
	require.NoError(t, err, "the keys stay as they were")
	other, _ := newKeys(t)
	foreign, err := other.Seal([]byte(canary), nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		keys.reading.Lock()
		defer keys.reading.Unlock()
		return keys.current.Load().problem != nil
	}, 10*time.Second, time.Millisecond)
	_, err = keys.Open(foreign, nil)
	assert.ErrorIs(t, err, ErrUnknownKey)
	assert.ErrorContains(t, err, path, "the error says that the file is damaged")
	_, err = keys.Open(sealed, nil)
	assert.NoError(t, err)
}

func TestKeyFiles(t *testing.T) {
	_, path := newKeys(t)
	for range 2 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		_, err = Add(path)
		require.NoError(t, err)
	}
	_, err := Create(path)
	assert.ErrorIs(t, err, os.ErrExist, "a keyset is never replaced by a new one")

	content, err := os.ReadFile(path)
	require.NoError(t, err)
	keys, err := Open(config.Encryption{Keys: config.Secret(content)})
	require.NoError(t, err)
	require.Len(t, keys.Secrets(), 3)
	for _, secret := range keys.Secrets() {
		assert.Contains(t, string(content), secret)
	}
	none, err := Open(config.Encryption{})
	require.NoError(t, err)
	assert.Nil(t, none)

	key := keys.Secrets()[0]
	for name, damaged := range map[string]string{
		"no JSON":           "x" + string(content),
		"not base64":        strings.Replace(string(content), key, "!"+key, 1),
		"another primitive": strings.ReplaceAll(string(content), "XAesGcmKey", "HmacKey"),
		"no prefix":         strings.ReplaceAll(string(content), `"TINK"`, `"RAW"`),
		"empty":             "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		_, err := OpenFile(path)
		require.ErrorIs(t, err, config.ErrInvalid, name)
		assert.NotContains(t, err.Error(), key, name)
	}
	_, err = OpenFile(filepath.Join(t.TempDir(), "missing"))
	assert.ErrorIs(t, err, config.ErrInvalid)
	assert.ErrorContains(t, err, "everturn keys new")
}

func TestTheSecretsOfRotatedKeysAreLearned(t *testing.T) {
	keys, path := newKeys(t)
	var learned []string
	keys.Learn(func(secrets ...string) { learned = secrets })
	assert.Len(t, learned, 1)
	_, err := Add(path)
	require.NoError(t, err)
	keys.refresh()
	assert.Len(t, learned, 2)
	assert.Equal(t, keys.Secrets(), learned)
}
