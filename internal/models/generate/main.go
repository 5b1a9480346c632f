package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/workflows/turn"
)

// source is the npm package, with its version, from which the snapshot is made.
const source = "@earendil-works/pi-ai@1.5.2"

// vendors are the providers whose models go into the snapshot.
var vendors = []string{
	"anthropic", "cerebras", "deepseek", "google", "groq", "meta", "mistral", "moonshotai", "openai", "xai", "zai",
}

var notice = "Models and prices: " + source + `, https://github.com/earendil-works/pi (packages/ai).

The MIT License. Copyright (c) Mario Zechner. Permission is hereby granted, free of charge, to any person obtaining a ` +
	`copy of this software and associated documentation files (the "Software"), to deal in the Software without ` +
	`restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, ` +
	`and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the ` +
	`following conditions: The above copyright notice and this permission notice shall be included in all copies or ` +
	`substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR ` +
	`IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND ` +
	`NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER ` +
	`LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE ` +
	`SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`

// entry is a model in the package's data.
type entry struct {
	ID            string   `json:"id"`
	Type          string   `json:"type"`
	BaseURL       string   `json:"baseUrl"`
	Reasoning     bool     `json:"reasoning"`
	Input         []string `json:"input"`
	ContextWindow int64    `json:"contextWindow"`
	MaxTokens     int64    `json:"maxTokens"`
	Cost          struct {
		cost
		Tiers []struct {
			InputTokensAbove int64 `json:"inputTokensAbove"`
			cost
		} `json:"tiers"`
	} `json:"cost"`
	// Levels has the vendor's word for each level of effort; null for a level that the model lacks.
	Levels map[turn.Effort]*string `json:"thinkingLevelMap"`
	Compat struct {
		Strict       *bool  `json:"supportsStrictMode"`
		Thinking     string `json:"thinkingFormat"`
		Effort       *bool  `json:"supportsReasoningEffort"`
		WantsContent bool   `json:"requiresReasoningContentOnAssistantMessages"`
		Adaptive     bool   `json:"forceAdaptiveThinking"`
		Bound        bool   `json:"supportsMidConvoEffort"` // these models take the same beta
	} `json:"compat"`
}

type cost struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
}

func (c cost) rates() models.Rates {
	return models.Rates{Input: c.Input, CachedInput: c.CacheRead, CacheWrite: c.CacheWrite, Output: c.Output}
}

func main() {
	dir, err := os.MkdirTemp("", "snapshot")
	check(err)
	defer os.RemoveAll(dir)
	run(dir, "npm", "pack", "--silent", source)
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	check(err)
	run(dir, "tar", "-xzf", archives[0])
	data := filepath.Join(dir, "package", "dist", "providers", "data")
	var manifest struct {
		GeneratedAt string `json:"generatedAt"`
	}
	read(filepath.Join(data, ".manifest.json"), &manifest)
	list := models.List{Date: manifest.GeneratedAt[:10], Notice: notice}
	for _, vendor := range vendors {
		var byAPI map[string]map[string]entry
		read(filepath.Join(data, vendor+".json"), &byAPI)
		add(&list, vendor, byAPI)
	}
	write(list)
}

// add appends a vendor and its chat models, sorted by name, to the list. byAPI has the entries of the package by wire
// protocol and model ID.
func add(list *models.List, vendor string, byAPI map[string]map[string]entry) {
	v := models.Vendor{ID: vendor}
	first := len(list.Models)
	for api, entries := range byAPI {
		for _, e := range entries {
			if e.Type == "chat" {
				v.BaseURL = e.BaseURL
				list.Models = append(list.Models, profile(vendor, api, e))
			}
		}
	}
	slices.SortFunc(list.Models[first:], func(a, b models.Profile) int { return strings.Compare(a.Name, b.Name) })
	list.Vendors = append(list.Vendors, v)
}

// profile returns the snapshot's description of a model. api is the package's name of its wire protocol.
func profile(vendor, api string, e entry) models.Profile {
	p := models.Profile{Provider: vendor, Name: e.ID, API: turn.APIChat, ContextTokens: e.ContextWindow,
		MaxOutputTokens: min(e.MaxTokens, e.ContextWindow), Capabilities: capabilities(vendor, e), Reasoning: reasoning(vendor, e)}
	switch api {
	case "openai-responses":
		p.API = turn.APIResponses
	case "anthropic-messages":
		p.API = turn.APIMessages
	}
	if e.Cost.Input > 0 || e.Cost.Output > 0 { // the package writes 0 for an unknown price
		p.Price = &models.Price{Rates: e.Cost.rates()}
		for _, t := range e.Cost.Tiers {
			p.Price.Tiers = append(p.Price.Tiers, models.Tier{Above: t.InputTokensAbove, Rates: t.rates()})
		}
	}
	return p
}

// capabilities returns the capabilities of a model. All models in the package accept tools.
func capabilities(vendor string, e entry) []models.Capability {
	out := []models.Capability{models.ToolUse}
	if slices.Contains(e.Input, "image") {
		out = append(out, models.Vision)
	}
	if vendor == "google" && strings.HasPrefix(e.ID, "gemini-") {
		out = append(out, models.Audio) // as its vendor documents; the package does not list audio
	}
	if e.Reasoning {
		out = append(out, models.Reasoning)
	}
	// These vendors document that their current models accept a JSON schema for the answer. For other vendors, the
	// package says whether a model does.
	documented := []string{"anthropic", "google", "meta", "mistral", "openai", "xai"}
	old := strings.HasPrefix(e.ID, "gpt-3") || e.ID == "gpt-4" || strings.HasPrefix(e.ID, "gpt-4-")
	if slices.Contains(documented, vendor) && !old || e.Compat.Strict != nil && *e.Compat.Strict && !old {
		out = append(out, models.JSONMode)
	}
	return out
}

// write writes the list to snapshot.json, one model per line, so that changes are easy to review.
func write(list models.List) {
	var out bytes.Buffer
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		check(err)
		return b
	}
	fmt.Fprintf(&out, "{\n\"date\": %s,\n\"notice\": %s,\n\"vendors\": %s,\n\"models\": [", text(list.Date),
		text(list.Notice), text(list.Vendors))
	for i, p := range list.Models {
		separator := ",\n"
		if i == 0 {
			separator = "\n"
		}
		out.WriteString(separator)
		out.Write(text(p))
	}
	out.WriteString("\n]\n}\n")
	check(os.WriteFile("snapshot.json", out.Bytes(), 0o644))
}

func run(dir, name string, args ...string) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	check(cmd.Run())
}

func read(file string, v any) {
	b, err := os.ReadFile(file)
	check(err)
	check(json.Unmarshal(b, v))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
