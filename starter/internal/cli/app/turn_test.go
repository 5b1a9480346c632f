package app

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

func TestMessagesThatWereNotTakenSayWhatToDo(t *testing.T) {
	a := client.Turn{Session: "s", MessageID: "m1"}
	for name, c := range map[string]struct {
		err   error
		alone bool
		code  int
		says  string
	}{
		"busy": {errors.Join(client.ErrBusy, turn.NewError(turn.CodeSessionBusy, nil, "a turn runs")), true, ExitFailed,
			"stop it with `everturn stop s`"},
		"a full queue": {turn.NewError(turn.CodeSessionBusy, nil, "100 messages wait"), false, ExitFailed, "100 messages wait"},
		"empty": {errors.Join(client.ErrInvalid, turn.NewError(turn.CodeInputInvalid, nil, "the message is empty")),
			false, ExitConfig, "the message is empty"},
		"no worker": {client.ErrNoWorker, false, ExitUnreachable, "--message-id m1"},
	} {
		err := sendError(a, c.alone, c.err)
		assert.Equal(t, c.code, ExitCode(err), name)
		assert.ErrorContains(t, err, c.says, name)
	}
}

func TestLinksOfTheWebUI(t *testing.T) {
	c := config.Temporal{UIURL: "http://ui/", Namespace: "a b"}
	assert.Equal(t, "http://ui/namespaces/a%20b", webUI(c))
	assert.Equal(t, "http://127.0.0.1:8233/namespaces/d", webUI(config.Temporal{Address: "127.0.0.1:7233", Namespace: "d"}))
}
