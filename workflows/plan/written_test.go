package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// written is a step that writes a file.
func written(name string) string {
	return fmt.Sprintf(`{"description":%q,"tool":"local/write_file","args":{"path":%q}}`, name, name)
}

// wrote is the end of the call of a written step.
func wrote(inference int, name, outcome string) Call {
	return Call{ID: fmt.Sprintf("%d.0", inference), Inference: inference, Tool: change,
		Arguments: fmt.Sprintf(`{"path":%q}`, name), Outcome: outcome}
}

func TestWrittenStepsAreDueOneAfterTheOther(t *testing.T) {
	p := fold(proposal(1, written("a"), written("b"), "look", written("c")))
	assert.Equal(t, []Due{{Step: 1, Tool: change, Arguments: `{"path":"a"}`}}, p.Due())
	p = p.After(wrote(2, "a", OK))
	assert.Equal(t, 2, p.Due()[0].Step)
	assert.Equal(t, p, p.After(wrote(3, "a", OK)), "the same call again is not of the plan")
	p = p.After(wrote(3, "b", OK))
	assert.Empty(t, p.Due(), "the third step is the model's")
	p = after(p, reflected(4, 3, Done))
	assert.Equal(t, 4, p.Due()[0].Step)
	p = p.After(wrote(5, "c", OK))
	assert.True(t, p.Ended)
	assert.Equal(t, "[x] 1. a (local/write_file)\n[x] 2. b (local/write_file)\n[x] 3. look — because\n[x] 4. c (local/write_file)",
		p.String())
}

func TestAFailedCallStopsThePlan(t *testing.T) {
	for _, outcome := range []string{"error", "denied", "unknown", "cancelled"} {
		p := fold(proposal(1, written("a"), written("b"))).After(wrote(2, "a", outcome))
		assert.Empty(t, p.Due())
		assert.Contains(t, p.String(), "[!] 1. a")
		assert.Contains(t, p.Instruction(), outcome)
		assert.NotEmpty(t, p.Outside(change, `{"path":"a"}`), "another try is another call")
		assert.Equal(t, 2, after(p, reflected(3, 1, Done)).Due()[0].Step)
		assert.True(t, after(p, reflected(3, 1, Conclude)).Ended)
	}
}

func TestAWrittenStepIsNotSkipped(t *testing.T) {
	p := fold(proposal(1, written("a"), written("b")))
	refuse := func(r event) string {
		return p.Refuse(Turn{Inference: 2, MaxInferences: 20}, StepTool, r.arguments, false)
	}
	assert.NotEmpty(t, refuse(reflected(2, 1, Done)))
	assert.Empty(t, refuse(reflected(2, 1, Continue)))
	assert.Equal(t, p.Due(), after(p, reflected(2, 1, Continue)).Due())
	assert.Empty(t, refuse(reflected(2, 1, Revise)))
	assert.NotEmpty(t, fold(proposal(1, "a")).Refuse(Turn{Inference: 2}, StepTool, reflected(2, 1, Continue).arguments, false))
}

func TestACallBesideAReflectionIsNoStep(t *testing.T) {
	p := fold(proposal(1, "look", written("b")))
	p = after(p, reflected(2, 1, Done)).After(wrote(2, "b", "denied"))
	assert.Equal(t, 2, p.Due()[0].Step)
	p = fold(proposal(3, written("a"))).After(wrote(3, "a", "denied"))
	assert.Len(t, p.Due(), 1)
}

func TestOnlyExactlyTheWrittenCallIsOfThePlan(t *testing.T) {
	p := fold(proposal(1, `{"description":"a","tool":"local_write_file","args":{"path":"a","n":[1,{"x":"y"}]}}`))
	calls := []Call{{ID: "same", Tool: change, Arguments: `{ "n":[1, {"x":"y"}], "path":"a" }`}}
	assert.Len(t, p.Written(calls), 1, "the same value in another form")
	for _, other := range []Call{
		{Tool: "local/edit_file", Arguments: `{"path":"a","n":[1,{"x":"y"}]}`},
		{Tool: "other/local_write_file", Arguments: `{"path":"a","n":[1,{"x":"y"}]}`},
		{Tool: change, Arguments: `{"path":"./a","n":[1,{"x":"y"}]}`},
		{Tool: change, Arguments: `{"path":"a","n":[1.0,{"x":"y"}]}`},
		{Tool: change, Arguments: `{"path":"a","n":[1,{"x":"y"}],"m":null}`},
		{Tool: change, Arguments: `{"path":"a"}`},
		{Tool: change, Arguments: `{`},
	} {
		assert.Empty(t, p.Written([]Call{other}), other)
		assert.NotEmpty(t, p.Outside(other.Tool, other.Arguments), other)
	}
	twice := fold(proposal(1, `{"description":"a","tool":"local/set","args":{},"independent":true}`,
		`{"description":"b","tool":"local/set","args":{},"independent":true}`))
	same := Call{Tool: "local/set", Arguments: "{}"}
	found := twice.Written([]Call{{ID: "1", Tool: same.Tool, Arguments: "{}"}, {ID: "2", Tool: same.Tool, Arguments: "{}"},
		{ID: "3", Tool: same.Tool, Arguments: "{}"}})
	assert.Len(t, found, 2, "a third one is of no step")
	assert.Equal(t, 2, found["2"].Step)
}

func TestAStepBindsItsCalls(t *testing.T) {
	p := fold(proposal(1, `{"description":"a","tool":"local/write_file","tools":["local_edit_file","mcp/docs/*"],"paths":["docs/","a.md"]}`))
	for call, outside := range map[[2]string]bool{
		{change, `{"path":"docs/a.md"}`}:                            false,
		{"local/edit_file", `{"path":"a.md"}`}:                      false,
		{"mcp/docs/put", `{"file":"docs/x/y"}`}:                     false,
		{"mcp/other/put", `{"path":"docs/x"}`}:                      true,
		{change, `{"path":"docs"}`}:                                 false,
		{change, `{"path":"docs2/a"}`}:                              true,
		{change, `{"path":"docs/../src/a"}`}:                        true,
		{change, `{"path":"./docs/a"}`}:                             true,
		{change, `{"path":"docs//a"}`}:                              true,
		{change, `{"path":"/docs/a"}`}:                              true,
		{change, `{"path":"docs\\..\\a"}`}:                          true,
		{change, `{"path":"DOCS/a"}`}:                               true,
		{change, `{"path":["docs/a","src/a"]}`}:                     true,
		{change, `{"path":"docs/a","destination":"src/a"}`}:         true,
		{change, `{"path":{"x":1}}`}:                                true,
		{change, `{}`}:                                              true,
		{change, `{"text":"docs/a"}`}:                               true,
		{"local/shell", `{"path":"docs/a","command":["rm","-rf"]}`}: true,
	} {
		assert.Equal(t, outside, p.Outside(call[0], call[1]) != "", call)
	}
	assert.NotEmpty(t, fold(proposal(1, "a")).Outside(change, `{}`), "a step that names nothing permits nothing")
	for _, bad := range []string{"../a", "/a", "a/../../b", "", "C:\\a"} {
		_, err := Parse(fmt.Sprintf(`{"steps":[{"description":"a","paths":[%q]}]}`, bad))
		assert.Error(t, err, bad)
	}
}

func TestAReflectingStepChangesNothing(t *testing.T) {
	p := fold(proposal(1, written("a"), `{"description":"look","tool":"reflect"}`, written("b"),
		`{"description":"sum up","tool":"summarize"}`)).After(wrote(2, "a", OK))
	assert.Empty(t, p.Due())
	assert.NotEmpty(t, p.Refuse(Turn{Inference: 3, MaxInferences: 20}, change, `{"path":"b"}`, false))
	p = after(p, reflected(3, 2, Done)).After(wrote(4, "b", OK))
	assert.Equal(t, []Due{{Step: 4, Tool: DiffTool, Arguments: "{}"}}, p.Due())
	p = p.After(Call{ID: "5.0", Inference: 5, Tool: DiffTool, Arguments: "{}", Outcome: OK})
	assert.Empty(t, p.Due(), "the model sums it up")
	assert.True(t, after(p, reflected(6, 4, Done)).Ended)
}

func TestWrittenStepsNeedOneInferenceOfTheTurn(t *testing.T) {
	six := proposal(1, written("1"), written("2"), written("3"), written("4"), written("5"), written("6"))
	at := Turn{Inference: 1, MaxInferences: 8, MaxCalls: 8}
	assert.Empty(t, Progress{}.Refuse(at, Tool, six.arguments, false))
	at.MaxInferences--
	assert.Contains(t, Progress{}.Refuse(at, Tool, six.arguments, false), "propose fewer")
}

func TestAgentsAreTakenInTheOrderOfThePlan(t *testing.T) {
	agent := func(name string) string {
		return fmt.Sprintf(`{"description":%q,"tool":"agent/x","independent":true}`, name)
	}
	ended := func(index int, name, outcome, changed string) Call {
		return Call{ID: fmt.Sprintf("2.%d", index), Inference: 2, Tool: "agent/x", Arguments: fmt.Sprintf(`{"task":%q}`, name),
			Outcome: outcome, Changed: changed}
	}
	p := fold(proposal(1, agent("a"), agent("b"), agent("c"), written("d")))
	assert.Len(t, p.Due(), 3)
	p = p.After(ended(2, "c", OK, "agent/c")).After(ended(1, "b", OK, "")).After(ended(0, "a", OK, "agent/a"))
	take := func(step int, from string) Due {
		return Due{Step: step, Tool: TakeTool, Arguments: fmt.Sprintf(`{"from":%q}`, from)}
	}
	assert.Equal(t, []Due{take(1, "agent/a")}, p.Due())
	p = p.After(Call{ID: "3.0", Inference: 3, Tool: TakeTool, Arguments: `{"from":"agent/a"}`, Outcome: OK})
	assert.Equal(t, []Due{take(3, "agent/c")}, p.Due(), "the second one has changed nothing")
	conflict := p.After(Call{ID: "4.0", Inference: 4, Tool: TakeTool, Arguments: `{"from":"agent/c"}`, Outcome: "error"})
	assert.Empty(t, conflict.Due())
	assert.Contains(t, conflict.String(), "[!] 3. c")
	p = p.After(Call{ID: "4.0", Inference: 4, Tool: TakeTool, Arguments: `{"from":"agent/c"}`, Outcome: OK})
	assert.Equal(t, 4, p.Due()[0].Step)
}
