package config

import (
	_ "embed"
	"fmt"
	"reflect"
)

const systemPrompt = "You are a careful assistant. Use the tools to look things up instead of guessing, " +
	"and say so when they do not answer the question."

// Default returns the default configuration: the defaults of the tags, and those that no tag can hold.
func Default() Config {
	var c Config
	setDefaults(reflect.ValueOf(&c).Elem())
	c.Runtime.SystemPrompt, c.Runtime.Redact, c.LocalFiles.Deny = systemPrompt, defaultRedact(), defaultDeny()
	c.Tuning = defaultTuning()
	return c
}

// setDefaults sets the fields of a struct, and of the structs in it, to the defaults of their tags.
func setDefaults(v reflect.Value) {
	for _, f := range (field{value: v}).members() {
		if f.value.Kind() == reflect.Struct {
			setDefaults(f.value)
		} else if text, ok := f.tag.Lookup("default"); ok {
			if err := parseInto(f.value, text); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.name, err))
			}
		}
	}
}

// newElement returns a new element of a list or a map with its defaults.
func newElement(list reflect.Type) reflect.Value {
	v := reflect.New(list.Elem()).Elem()
	if v.Kind() == reflect.Struct {
		setDefaults(v)
	}
	return v
}

// defaultRedact returns patterns of secrets that have a published form: API keys of OpenAI and compatible providers,
// GitHub, AWS and Slack tokens, private keys, bearer tokens and JSON web tokens.
func defaultRedact() []string {
	return []string{
		`\bsk-[A-Za-z0-9_-]{16,}`,
		`gh[pousr]_[A-Za-z0-9]{36,}`,
		`AKIA[0-9A-Z]{16}`,
		`xox[abeprs]-[A-Za-z0-9-]{10,}`,
		`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`,
		`(?i)bearer\s+[A-Za-z0-9._~+/-]{16,}=*`,
		`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`,
	}
}

// defaultDeny returns patterns of files in which programs usually keep credentials.
func defaultDeny() []string {
	return []string{
		".env*", "*.env", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", ".env/", ".envs/",
		"id_*", "!id_*.*", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
		"*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.p8", "*.jks", "*.keystore", "*.kdbx",
		".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".vault-token",
		".dockercfg", ".s3cfg", ".boto", "kubeconfig", "*.tfstate", "*.tfstate.*", ".password-store/",
		".aws/", ".azure/", ".gnupg/", ".kube/", ".ssh/", ".config/gcloud/", ".config/gh/", ".docker/config.json",
		"credentials", "credentials.json", "credentials.toml", "client_secret*.json", "*service-account*.json",
		"secrets.env", "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "agent.toml",
	}
}

//go:generate go test -run TestGenerated -update

//go:embed example.toml
var example string

//go:embed schema.json
var schema []byte

// Example returns a complete, commented agent.toml. As it stands it means the same as Default; settings without a
// default are in it as comments.
func Example() string { return example }

// Schema returns the JSON schema (draft 2020-12) of agent.toml, for editors.
func Schema() []byte { return schema }
