package adapters

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/config"
)

// setSecrets sets each secret in a value to its name, and returns these texts.
func setSecrets(name string, v reflect.Value) (set []string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[config.Secret]() {
			v.SetString("secret of " + name)
			return []string{v.String()}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		return setSecrets(name, v.Index(0))
	case reflect.Struct:
		for f, member := range v.Fields() {
			if f.IsExported() {
				set = append(set, setSecrets(name+"."+f.Name, member)...)
			}
		}
	}
	return set
}

// The secrets of MCP servers and the encryption keys are not among these: what uses them adds them.
func TestSecretsOfTheFileAreRedacted(t *testing.T) {
	cfg := config.Default()
	tested := 0
	for f, section := range reflect.ValueOf(&cfg).Elem().Fields() {
		if !f.IsExported() || f.Name == "MCP" || f.Name == "Encryption" {
			continue
		}
		secrets := setSecrets(f.Name, section)
		known := Secrets(cfg, nil)
		for _, secret := range secrets {
			tested++
			assert.Equal(t, "it is [redacted].", known.String("it is "+secret+"."), secret)
		}
	}
	assert.GreaterOrEqual(t, tested, 4)
}

func TestTheJournalsPasswordIsRedacted(t *testing.T) {
	for _, url := range []string{"postgres://me:p%40ssw0rd-9@db/x", "postgres://me@db/x?password=p%40ssw0rd-9"} {
		cfg := config.Default()
		cfg.Journal.URL = config.Secret(url)
		known := Secrets(cfg, nil)
		for _, text := range []string{url, "p@ssw0rd-9", "p%40ssw0rd-9"} {
			assert.Equal(t, "it is [redacted].", known.String("it is "+text+"."), url)
		}
	}
	cfg := config.Default()
	cfg.Journal.URL = "postgres://postgres:postgres@db/x"
	assert.Equal(t, "postgres", Secrets(cfg, nil).String("postgres"), "a name is no secret")
	t.Setenv("PGPASSWORD", "from-the-environment")
	cfg.Journal.URL = "postgres://me@db/x"
	assert.Equal(t, "[redacted]", Secrets(cfg, nil).String("from-the-environment"))
}
