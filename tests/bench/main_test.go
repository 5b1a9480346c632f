package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOnlyAWholeRunIsAccepted(t *testing.T) {
	for _, part := range [][]string{{"-smoke"}, {"-only", "answer"}, {"-profile", "x"}} {
		p := parse(append(part, "-accept", "faster"), io.Discard, io.Discard)
		assert.ErrorContains(t, p.check(), "only a whole run can be accepted")
		assert.NoError(t, parse(part, io.Discard, io.Discard).check())
	}
	assert.NoError(t, parse([]string{"-accept", "faster"}, io.Discard, io.Discard).check())
}

func TestADoomedArmBreaksOnALimit(t *testing.T) {
	assert.True(t, expected("Blob data size exceeds limit."))
	assert.False(t, expected("connection refused"))
}
