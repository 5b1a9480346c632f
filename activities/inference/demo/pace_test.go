package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestASlowAnswerTakesLongEnoughToBreakIn(t *testing.T) {
	s := &Server{opts: Options{Slow: true}}
	for _, words := range []int{1, 5, 60, 100, 1000} {
		total := time.Duration(words) * s.pause(words)
		assert.InDelta(t, 17.5, total.Seconds(), 7.6, "%d words", words)
	}
	assert.Equal(t, slowWord, s.pause(100))
}
