package leakcheck

import (
	"slices"
	"time"
)

// Value picks a figure of a sample.
type Value func(Sample) float64

// Low is the lowest value of a window.
type Low struct {
	After time.Duration // the middle of the window, measured from the first sample
	Value float64
}

// Lows cuts the samples after the warm-up into windows and returns the lowest value of each. It drops a last window
// that is less than half full.
func Lows(samples []Sample, warmUp, window time.Duration, value Value) []Low {
	if len(samples) == 0 {
		return nil
	}
	begin := samples[0].At.Add(warmUp)
	end := samples[len(samples)-1].At
	var out []Low
	for from := begin; end.Sub(from) >= window/2; from = from.Add(window) {
		var values []float64
		for _, s := range samples {
			if !s.At.Before(from) && s.At.Before(from.Add(window)) {
				values = append(values, value(s))
			}
		}
		if len(values) > 0 {
			out = append(out, Low{After: from.Add(window / 2).Sub(samples[0].At), Value: slices.Min(values)})
		}
	}
	return out
}

// Trend is a straight line through the lows of a series.
type Trend struct {
	Mean     float64
	PerMin   float64       // slope
	Over     time.Duration // from the first low to the last
	Windows  int
	Smallest float64
	Largest  float64
}

// Growth returns how much the line rises from its beginning to its end.
func (t Trend) Growth() float64 { return t.PerMin * t.Over.Minutes() }

// Line fits a line to the lows by least squares. With fewer than two lows there is no line.
func Line(lows []Low) Trend {
	t := Trend{Windows: len(lows)}
	if len(lows) == 0 {
		return t
	}
	var x, y float64
	for _, l := range lows {
		x += l.After.Minutes() / float64(len(lows))
		y += l.Value / float64(len(lows))
	}
	var xx, xy float64
	t.Smallest, t.Largest = lows[0].Value, lows[0].Value
	for _, l := range lows {
		dx := l.After.Minutes() - x
		xx += dx * dx
		xy += dx * (l.Value - y)
		t.Smallest, t.Largest = min(t.Smallest, l.Value), max(t.Largest, l.Value)
	}
	t.Mean, t.Over = y, lows[len(lows)-1].After-lows[0].After
	if xx > 0 {
		t.PerMin = xy / xx
	}
	return t
}
