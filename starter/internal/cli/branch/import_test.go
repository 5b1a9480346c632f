package branch

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/journal"
)

// TestImportErrorPromisesNoMoreThanIsKnown checks that the error does not say that nothing was changed when the reply
// to the commit may be lost.
func TestImportErrorPromisesNoMoreThanIsKnown(t *testing.T) {
	const promise = "nothing was changed"
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused, lost := errors.New("line 2"), fmt.Errorf("%w: connection lost", journal.ErrUnavailable)
	assert.ErrorContains(t, importError(t.Context(), refused), promise)
	assert.NotContains(t, importError(t.Context(), lost).Error(), promise)
	assert.NotContains(t, importError(ended, context.Canceled).Error(), promise)
}
