package plan

// The descriptions and the schemas of the tools.
const (
	Description = "Proposes the steps in which you will do what the user asks. The user may have to confirm them, " +
		"and may change them. Until the plan is accepted, only tools that change nothing may be called. A step with " +
		"tool and args is carried out as written, without you, and its result is reported: write every step so whose " +
		"arguments you know. Any other step names the tools, and the paths if they are known, that it needs to change " +
		"something; a change beside them is asked for. The tool reflect is a step in which you look at the results so " +
		"far, and summarize one in which you get the diff of all changes and sum it up. A call of this tool while a " +
		"plan is carried out replaces the steps that are not done."
	// TodoDescription is that of Tool for a list that the model keeps.
	TodoDescription = "Keeps a list of the steps in which you do what the user asks, whom it shows how far you are. " +
		"Give each step a description only. Another call replaces the steps that are not done."
	Schema = `{"additionalProperties":false,"properties":{"steps":{"items":{"additionalProperties":false,"properties":{` +
		`"args":{"description":"the arguments of the tool, with which the step is carried out as written","type":"object"},` +
		`"description":{"description":"what the step does, in a line","maxLength":500,"minLength":1,"type":"string"},` +
		`"independent":{"description":"the step does not need the results of the independent steps next to it: without ` +
		`args an agent may do it that sees only its description","type":"boolean"},` +
		`"paths":{"description":"without args: the files and folders that the step may change","items":{"type":"string"},` +
		`"maxItems":32,"type":"array"},` +
		`"tool":{"description":"the tool that the step calls, or reflect or summarize","type":"string"},` +
		`"tools":{"description":"without args: further tools that the step may call","items":{"type":"string"},` +
		`"maxItems":32,"type":"array"}},"required":["description"],"type":"object"},` +
		`"maxItems":32,"minItems":1,"type":"array"}},"required":["steps"],"type":"object"}`
	StepDescription = "Reflects on a step of the plan when its work is done, or cannot be done: compare the results " +
		"with what the step was for. The assessment done goes on with the next step, continue with this one if it is " +
		"written and still to be carried out, revise lets you replace the steps that are not done, and conclude ends " +
		"the plan here."
	StepSchema = `{"additionalProperties":false,"properties":{"reflection":{"description":"what the step has achieved, ` +
		`or why it cannot be done","maxLength":1000,"type":"string"},"step":{"description":"its number in the plan",` +
		`"minimum":1,"type":"integer"},"assessment":{"enum":["done","continue","revise","conclude"],"type":"string"}},` +
		`"required":["step","assessment","reflection"],"type":"object"}`
	// System is the part of the system prompt that tells a model to work by a plan.
	System = "Work by a plan. Look at what you need with tools that change nothing, then propose the steps with " +
		"local/plan. Steps with tool and args are carried out for you. Do the others one at a time, and reflect on each " +
		"with local/plan_step. Answer when the plan is done. If the user's message needs no change of anything, answer " +
		"without a plan."
	// TodoSystem is that part for a list that the model keeps.
	TodoSystem = "If a task takes several steps, list them with local/plan first, and reflect on each with " +
		"local/plan_step when it is done. The list binds nothing: change it as you learn more."
)
