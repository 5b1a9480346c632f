package tests

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// TestCLIAttachmentsReachTheModel attaches an image and a PDF to a message. The model gets both, now and with the next
// message; show names them, also in an import. A text file is refused.
func TestCLIAttachmentsReachTheModel(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Text("I see."))
	h := newUserFolder(t, asking(model)+"[[models]]\nname = \"openai:scripted\"\ncapabilities = [\"tool_use\", \"vision\"]\n")
	image, paper := "\x89PNG\r\n\x1a\n and a picture", "%PDF-1.7\n and a paper"
	h.write("picture.dat", image)
	h.write("paper.pdf", paper)
	h.write("notes.txt", "some text")
	h.worker().says("worker polls")
	session := session(t)
	h.everturn("run", "-s", session, "--attach", "picture.dat,paper.pdf", "What is this?").exits(0)
	h.everturn("run", "-s", session, "And now?").exits(0)
	h.everturn("export", session, "-f", "session.jsonl").exits(0)
	const elsewhere = "journal.path=copy.db"
	h.everturn("import", "session.jsonl", "--set", elsewhere).exits(0)
	requests := model.Requests()
	require.Len(t, requests, 2)
	for _, r := range requests {
		assert.Contains(t, string(r.Body), "data:image/png;base64,"+base64.StdEncoding.EncodeToString([]byte(image)))
		assert.Contains(t, string(r.Body), "data:application/pdf;base64,"+base64.StdEncoding.EncodeToString([]byte(paper)))
	}
	for _, set := range []string{elsewhere, "journal.path=.everturn/journal.db"} {
		assert.Contains(t, h.everturn("show", session, "--set", set).exits(0).out.String(), "What is this? [image/png, 22 B]")
	}
	refused := h.everturn("run", "--attach", "notes.txt", "Look").exits(3)
	assert.Contains(t, refused.err.String(), "neither an image nor a PDF")
	assert.Contains(t, h.everturn("send", session, "--attach", "none.png", "Look").exits(3).err.String(), "none.png")
}
