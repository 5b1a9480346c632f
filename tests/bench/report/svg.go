package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Plot is groups of horizontal bars.
type Plot struct {
	Name   string // of its file, without suffix
	Title  string
	Unit   string
	Groups []Group
	Log    bool // a logarithmic axis
}

// Group is what is compared.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is one arm's value.
type Bar struct {
	Arm   string
	Value float64
}

// Plots are the pictures of a run.
func Plots(r Result) []Plot {
	arms := []string{"everturn local", "cookbook local", "floor local", "everturn mcp", "cookbook mcp", "floor mcp"}
	p50 := func(m Measure) float64 { return m.Latency.P50 }
	speed := func(m Measure) float64 { return m.TurnsPerSecond }
	bytes := func(m Measure) float64 { return float64(m.HistoryBytes) / 1024 }
	return []Plot{
		r.plot("latency", "Median time of a turn, one at a time", "ms", false, arms, p50, "answer", "one hop", "five hops", "six parallel calls"),
		r.plot("throughput", "Turns a second, many in flight", "turns/s", false, arms, speed, "one hop, 32 in flight", "five hops, 32 in flight", "one hop, 256 in flight"),
		r.plot("history", "History of a turn (logarithmic)", "KB", true, arms, bytes, "one hop", "five hops", "20 hops", "one hop on 0.4 MB", "one hop on 0.8 MB", "100 hops on 0.8 MB"),
	}
}

func (r Result) plot(name, title, unit string, log bool, arms []string, value func(Measure) float64, scenarios ...string) Plot {
	p := Plot{Name: name, Title: title, Unit: unit, Log: log}
	for _, s := range scenarios {
		g := Group{Name: s}
		for _, a := range arms {
			if m, ok := r.Part(s).Arm(a); ok {
				g.Bars = append(g.Bars, Bar{a, value(m)})
			}
		}
		if len(g.Bars) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	return p
}

// colours tell whose bar it is; the lighter of a pair is the local lane.
var colours = map[string]string{
	"everturn local": "#2a9d8f", "everturn mcp": "#1b6b62", "cookbook local": "#f4a261", "cookbook mcp": "#c8702a",
	"floor local": "#c9ccd1", "floor mcp": "#8d939c",
}

// The picture's measures, in pixels.
const (
	plotWidth = 760
	barsLeft  = 150
	barsRight = 640
	barHeight = 14
	groupGap  = 30
	topMargin = 40
)

// SVG writes the plot as a picture of its own.
func (p Plot) SVG(w io.Writer) error {
	var b strings.Builder
	y := topMargin
	most := 0.0
	for _, g := range p.Groups {
		for _, bar := range g.Bars {
			most = max(most, bar.Value)
		}
	}
	for _, g := range p.Groups {
		fmt.Fprintf(&b, `<text x="10" y="%d" font-weight="bold">%s</text>`+"\n", y+12, html.EscapeString(g.Name))
		y += 18
		for _, bar := range g.Bars {
			p.bar(&b, bar, y, most)
			y += barHeight + 3
		}
		y += groupGap - 18
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="10" y="22" font-size="15" font-weight="bold">%s</text>
%s</svg>
`, plotWidth, y, plotWidth, y, html.EscapeString(p.Title), b.String())
	return err
}

func (p Plot) bar(b *strings.Builder, bar Bar, y int, most float64) {
	share := bar.Value / max(most, 1e-9)
	if p.Log {
		share = math.Log1p(bar.Value) / math.Log1p(most)
	}
	width := share * (barsRight - barsLeft)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#444">%s</text>`, barsLeft-6, y+11, html.EscapeString(bar.Arm))
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, barsLeft, y, width, barHeight, colours[bar.Arm])
	fmt.Fprintf(b, `<text x="%.1f" y="%d">%.3g %s</text>`+"\n", barsLeft+width+5, y+11, bar.Value, p.Unit)
}
