package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

func TestAWaitSaysWhenItGoesOnAndWhenItEnds(t *testing.T) {
	at := time.Date(2026, 1, 2, 14, 3, 0, 0, time.Local)
	text := Waiting("openai could not answer.", at, turn.WaitingEvent{Provider: "openai", Status: 429,
		NextAt: at.Add(5 * time.Second), WaitedMS: 60_000, LimitMS: 900_000})
	assert.Equal(t, "waiting for openai: openai could not answer (429) · next attempt 14:03:05 · gives up 14:17:00", text)
}
