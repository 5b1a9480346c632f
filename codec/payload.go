package codec

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

// The metadata of an encrypted payload. Its data is the ciphertext of the whole plain payload.
const (
	// Encoding is the value of the metadata "encoding".
	Encoding = "binary/encrypted"
	// MetadataKeyID is the key's ID, in decimal.
	MetadataKeyID = "encryption-key-id"
	// MetadataNamespace is the namespace, which is authenticated with the ciphertext.
	MetadataNamespace = "encryption-namespace"
)

// payloads is the codec of one namespace.
type payloads struct {
	keys      *Keys
	namespace string
}

// Payloads returns the codec of a namespace's payloads. It reads payloads that are not encrypted as they are. Its
// errors are ErrUnknownKey, ErrNamespace and ErrCiphertext.
func (k *Keys) Payloads(namespace string) converter.PayloadCodec { return &payloads{k, namespace} }

// associated returns the associated data with which payloads are encrypted. The namespace in it keeps a payload from
// being decrypted in another namespace. The prefix separates payloads from other content that the same keys encrypt.
func (p *payloads) associated() []byte { return []byte("everturn payload\x00" + p.namespace) }

// Encode implements converter.PayloadCodec. It encrypts each payload as a whole, with its metadata, unless the
// configuration says decrypt_only.
func (p *payloads) Encode(list []*commonpb.Payload) ([]*commonpb.Payload, error) {
	if p.keys.plain {
		return list, nil
	}
	return each(list, func(plain *commonpb.Payload) (*commonpb.Payload, error) {
		b, err := proto.Marshal(plain)
		if err != nil {
			return nil, fmt.Errorf("encrypting a payload: %w", err)
		}
		sealed, err := p.keys.Seal(b, p.associated())
		if err != nil {
			return nil, err
		}
		id, _ := keyID(sealed)
		return &commonpb.Payload{Data: sealed, Metadata: map[string][]byte{
			converter.MetadataEncoding: []byte(Encoding),
			MetadataKeyID:              strconv.AppendUint(nil, uint64(id), 10),
			MetadataNamespace:          []byte(p.namespace),
		}}, nil
	})
}

// Decode implements converter.PayloadCodec. It returns payloads that are not encrypted unchanged.
func (p *payloads) Decode(list []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return each(list, func(sealed *commonpb.Payload) (*commonpb.Payload, error) {
		if string(sealed.GetMetadata()[converter.MetadataEncoding]) != Encoding {
			return sealed, nil
		}
		if other := string(sealed.GetMetadata()[MetadataNamespace]); other != p.namespace {
			return nil, fmt.Errorf("decrypting a payload in namespace %q: %w, %q", p.namespace, ErrNamespace, other)
		}
		b, err := p.keys.Open(sealed.GetData(), p.associated())
		if err != nil {
			return nil, err
		}
		plain := &commonpb.Payload{}
		if err := proto.Unmarshal(b, plain); err != nil {
			return nil, fmt.Errorf("decrypting a payload: %w: %w", ErrCiphertext, err)
		}
		return plain, nil
	})
}

// each returns the results of do for the payloads of list, or the first error.
func each(list []*commonpb.Payload,
	do func(*commonpb.Payload) (*commonpb.Payload, error)) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(list))
	for i, p := range list {
		var err error
		if out[i], err = do(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// DataConverter returns the converter of a client of the namespace. Without keys (nil) it is Temporal's own.
func (k *Keys) DataConverter(namespace string) converter.DataConverter {
	if k == nil {
		return converter.GetDefaultDataConverter()
	}
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), k.Payloads(namespace))
}

// WorkerDataConverter is like DataConverter, for a worker. If the converter cannot decrypt a payload in a workflow
// task, it panics, so that the SDK fails the task and the server repeats it. An error would end the workflow, or reach
// the workflow's code as the failure of an activity.
func (k *Keys) WorkerDataConverter(namespace string) converter.DataConverter {
	if k == nil {
		return converter.GetDefaultDataConverter()
	}
	return taskConverter{k.DataConverter(namespace)}
}

// FailureConverter returns a converter of failures that encrypts their messages and stack traces with dc. If a worker
// cannot decrypt the input of an activity, the failure of that activity has the type KeyErrorType.
func FailureConverter(dc converter.DataConverter) converter.FailureConverter {
	return keyFailures{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: dc, EncodeCommonAttributes: true,
	})}
}

// KeyErrorType is the type of the failure of an activity that did not run because its worker could not decrypt its
// input. The server retries the activity. By this type, the workflow can tell such a failure from one of an activity
// that ran.
const KeyErrorType = "EncryptionKey"

// keyFailures is a FailureConverter that gives errors of decryption the type KeyErrorType, unless they have a type
// already.
type keyFailures struct{ converter.FailureConverter }

// ErrorToFailure implements converter.FailureConverter.
func (k keyFailures) ErrorToFailure(err error) *failurepb.Failure {
	var typed *temporal.ApplicationError
	if IsError(err) && !errors.As(err, &typed) {
		err = temporal.NewApplicationError(err.Error(), KeyErrorType)
	}
	return k.FailureConverter.ErrorToFailure(err)
}

// taskConverter is a DataConverter that panics if it cannot decrypt a payload: see WorkerDataConverter. Activities get
// the converter in it, whose error fails only the attempt.
type taskConverter struct{ converter.DataConverter }

var _ workflow.ContextAware = taskConverter{}

// WithWorkflowContext implements workflow.ContextAware.
func (t taskConverter) WithWorkflowContext(workflow.Context) converter.DataConverter { return t }

// WithContext implements workflow.ContextAware.
func (t taskConverter) WithContext(context.Context) converter.DataConverter { return t.DataConverter }

// FromPayload implements converter.DataConverter.
func (t taskConverter) FromPayload(p *commonpb.Payload, to any) error {
	return failTask(t.DataConverter.FromPayload(p, to))
}

// FromPayloads implements converter.DataConverter.
func (t taskConverter) FromPayloads(p *commonpb.Payloads, to ...any) error {
	return failTask(t.DataConverter.FromPayloads(p, to...))
}

func failTask(err error) error {
	if IsError(err) {
		panic(err)
	}
	return err
}
