package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatCannotBeRecordedIsSaid(t *testing.T) {
	const nobody = "127.0.0.1:1"
	for says, args := range map[string]string{
		"say which run":                        "",
		"-name v1-approval -workflow-id ID":    "-name v1-answer",
		`"left" is no flag`:                    "-name v1-answer -workflow-id id left",
		"run this at the repository's root":    "-name v1-answer -workflow-id id",
		"no Temporal answers at " + nobody:     "-name v1-answer -workflow-id id -dir . -address " + nobody,
		"flag provided but not defined: -nmae": "-nmae v1-answer",
	} {
		err := record(t.Context(), strings.Fields(args), nil, io.Discard, io.Discard)
		assert.ErrorContains(t, err, says, args)
	}
}
