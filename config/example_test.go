package config_test

import (
	"errors"
	"fmt"

	"github.com/everturn/everturn/config"
)

func ExampleLoad() {
	loaded, err := config.Load(config.LoadOptions{
		Environ:   []string{"EVERTURN_RUNTIME_MAX_STEPS=3"},
		Overrides: map[string]string{"llm.model": "gpt-4.1"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := loaded.Config
	fmt.Println(c.Runtime.MaxSteps, "from", loaded.Origin("runtime.max_steps"))
	fmt.Println(c.LLM.Model, "from", loaded.Origin("llm.model"))
	fmt.Println(c.Runtime.TurnTimeout, "from", loaded.Origin("runtime.turn_timeout"))
	// Output:
	// 3 from environment EVERTURN_RUNTIME_MAX_STEPS
	// gpt-4.1 from command line (llm.model)
	// 30m0s from preset standard
}

func ExampleError() {
	_, err := config.Load(config.LoadOptions{
		Environ:   []string{"EVERTURN_POLICY_TAINT=strikt"},
		Overrides: map[string]string{"runtime.max_step": "3"},
	})
	var all *config.Error
	if errors.As(err, &all) {
		for _, p := range all.Problems {
			fmt.Println(p)
		}
	}
	fmt.Println(errors.Is(err, config.ErrInvalid))
	// Output:
	// command line: unknown key "runtime.max_step"; did you mean runtime.max_steps?
	// environment EVERTURN_POLICY_TAINT: policy.taint is "strikt"; it must be one of on, off, strict; did you mean strict?
	// true
}

// Secrets stay hidden however they are printed; Reveal is for the code that sends them.
func ExampleSecret() {
	c := config.Default()
	c.LLM.APIKey = "sk-1234"
	fmt.Printf("%v %+v\n", c.LLM.APIKey, struct{ Key config.Secret }{c.LLM.APIKey})
	// Output: set {Key:set}
}
