package turn_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

func TestADenialHoldsForOtherSpellingsOfItsPaths(t *testing.T) {
	for pattern, values := range map[string]struct{ denied, left []string }{
		"/etc/**": {
			[]string{
				"file:///etc/passwd", "file:/etc/passwd", "file://localhost/etc/passwd", "FILE:///etc/passwd",
				"file:////etc/passwd", `file:\\\etc\passwd`, "url:file:///etc/passwd",
				"jar:file:///etc/x.jar!/y", "<file:///etc/passwd>", `"/etc/passwd"`, "file:///%65tc/passwd", "file:///etc?x",
				"file:///etc#x", "//localhost/etc/passwd",
				"/proc/self/root/etc/passwd", "/proc/1/root/srv/a", "/proc/self/./root/x", "/proc//self/cwd/x",
				"/proc/self/task/7/root/x", "../proc/self/root/x", "/host/proc/1/root/x",
				"/dev/fd/3", "file:///proc/self/root/x", "/%70roc/self/root/x",
				"/%65tc/passwd%zz", "/%65tc/passwd", "/%2565tc/passwd", "/%252565tc/passwd",
				"/%" + strings.Repeat("25", 40) + "65tc/passwd", "/%%36%35tc/passwd", "/%u0065tc/passwd", "/%c1%a5tc/passwd",
				"/e\u200btc/passwd", "/etc\u200b/passwd", "\ufeff/etc/passwd", "/e\u00adtc/x", "/e\ufe0ftc/x", "/e\u2060tc/x",
				"/\u202eetc/x", "/e%E2%80%8Btc/x",
				"／etc／passwd", "/ｅｔｃ/passwd", "/et𝐜/passwd", "/srv/．．/etc/passwd", "/srv/‥/etc/passwd",
				"∕etc∕passwd", "/%EF%BD%85tc/x",
				"/etc;x/passwd", "/srv/..;/etc/passwd", "/srv/.. /etc/passwd", "/etc /passwd", "/etc./passwd", "/srv/..%20/etc/x",
				"~/x", "~root/x", "/~/x", "file:~/x", "$HOME/x", "/srv/$X/a", "${X}/passwd", "/srv/$(x)", "%systemroot%/x",
				"/et$@c/x", "//?/C:/etc/passwd", "//host/c$/etc/x", "/ETC~1/passwd", "/c:/etc/x",
				"/srv/" + strings.Repeat("./", 5000) + "../etc/passwd",
			},
			[]string{"/srv/a", "/srv/etc/a", "/srv/a-b.c_d", "docs/a", "a", "/srv/proc", "/srv/..a", "/srv/.a"},
		},
		"/home/*/.ssh/**": {[]string{"~/.ssh/id", "~me/.ssh/id", "/home/me/.ssh/id", "/home/me/.ssh/../.ssh/id",
			"file:///home/me/.ssh/id", "$HOME/.ssh/id", "docs/.ssh/id"}, []string{"/home/me/notes", "docs/ssh/id"}},
		".ssh/**": {
			[]string{"~/.ssh/id", "~me/.ssh/id", "/home/me/.ssh/id", "~/../me/.ssh/id", ".ssh/id", "$HOME/.ssh/id",
				"docs/.ssh/id"},
			[]string{"/home/me/notes", "docs/ssh/id"},
		},
		"~/**": {[]string{"~/x", "~root/x", "/home/me/x", "/Users/me/x", "/root/x"}, nil},
		"file:///etc/**": {[]string{"file:///etc/passwd", "/etc/passwd", "file:/etc/passwd", "file://localhost/etc/passwd"},
			nil},
		"secrets/**": {[]string{"file:secrets/a", "file:///srv/secrets/a", "$X/a", "~/../x/secrets/a", "sec\u200brets/a",
			"ｓecrets/a", "ſecrets/a", "secrets./a", "secrets;x/a", "/proc/self/cwd/secrets/a"},
			[]string{"docs/a", "/srv/docs/a", "Secret"}},
		"ﬁles/**":   {[]string{"ﬁles/a", "files/a"}, nil},
		"résumé/**": {[]string{"résumé/a", "re\u0301sume\u0301/a"}, nil},
		"*.key": {[]string{"a.key ", "a.key.", "a.key;x", "file:a.key", "a.ke\u200by", "a.ｋey", "$X",
			"a.key::$DATA", "/dev/stdin"}, []string{"a.txt"}},
		"1000": {[]string{"１０００", "1\u200b000", "%31000"}, []string{"1001"}},
		"[a/b": {[]string{"x"}, nil}, // an invalid pattern allows nothing
	} {
		for _, value := range values.denied {
			assert.NotEqual(t, turn.Allow, permitted(barred(pattern), path(value)), "%s of %.200q", pattern, value)
		}
		for _, value := range values.left {
			assert.Equal(t, turn.Allow, permitted(barred(pattern), path(value)), "%s of %.200q", pattern, value)
		}
	}
}

func TestADenialHoldsForOtherSpellingsOfItsAddresses(t *testing.T) {
	for pattern, values := range map[string]struct{ denied, left []string }{
		"https://evil.com/**": {
			[]string{
				"https://evil.com/x", "https://evil.com:443/x", "https://evil.com:8443/x", "https://evil.com:/x",
				"https://u@evil.com/x", "https://u:p@evil.com:443/x", "https://evil.com./x",
				"https://evil.com.:443/x", "http://evil.com/x", "//evil.com/x", `\\evil.com\x`, `/\evil.com/x`,
				"https://evil.com?x", "https://evil.com#x", "https://evil.com?x=/y", "https://evil.com",
				"evil.com/x", "evil.com", "evil.com:443/x", "u@evil.com/x", "https:evil.com/x", "https:/evil.com/x",
				"https:///evil.com/x", `https:\\evil.com\x`, "ws://evil.com/x", "HTTPS://EVIL.COM/x",
				"view-source:https://evil.com/x", "https://%65vil.com/x", "https://ｅvil.com/x", "https://evil。com/x",
				"https://ev\u00adil.com/x", "https://ⓔvil.com/x", "ht\ntps://evil.com/x",
				"https://evil.com;.good.com/", "https://evil.com&.good.com/", "https://evil.com\\@good.com/",
				"https://good.com\\@evil.com/", "https://good.com#@evil.com/", "https://evil.com@good.com/",
				"https://$HOST/x", "https://${X}.com/", " https://evil.com/x", "<https://evil.com/x>", "file://evil.com/share/x",
				"https://evil.com:443/" + strings.Repeat("x", 10_000),
			},
			[]string{"https://good.com/", "https://notevil.com/x", "https://evil.com.good.org/", "https://good.com/evil.com",
				"https://good.com/x?u=evil.com&v=1", "http://good.com:8080", "https://1.2.3.4/x"},
		},
		"https://evil.com/admin/**": {[]string{"https://evil.com:443/admin/x", "https://evil.com/x/../admin/y",
			"https://evil.com//admin/x", "https://evil.com/admin?x", "https://evil.com/%61dmin/x", "https://evil.com/$x"},
			[]string{"https://evil.com/", "https://evil.com/public", "https://evil.com/public?x=admin"}},
		"https://evil.com": {[]string{"https://evil.com", "https://evil.com/", "https://evil.com:443?x=/y", "evil.com"},
			[]string{"https://evil.com/x"}},
		"https://*.evil.com/**": {[]string{"https://a.evil.com:443/x", "http://a.b.evil.com./x", "https://u@a.evil.com/x"},
			[]string{"https://evil.org/x"}},
		"https://*/**": {[]string{"https://x.com:1/y", "//x.com/y", "http://x/y"}, nil},
		"http://169.254.169.254/**": {[]string{"http://169.254.169.254/x", "http://2852039166/x", "http://0xa9fea9fe/x",
			"http://0251.0376.0251.0376/x", "http://169.254.43518/", "http://[::ffff:169.254.169.254]/x",
			"http://[::ffff:a9fe:a9fe]:80/x"}, []string{"http://169.254.169.253/x"}},
		`http://\[::1\]:8080/**`: {[]string{"http://[::1]:8080/x", "http://u@[::1]:08080/x"}, nil},
		"https://evil.com:8443/**": {[]string{"https://evil.com:8443/x", "http://u@evil.com.:08443/x"},
			[]string{"https://evil.com/x", "https://evil.com:8444/x"}},
		"evil.com/**": {[]string{"evil.com/x", "https://evil.com/x", "//u@evil.com:1/x", "docs/evil.com/x"},
			[]string{"good.com/x"}},
	} {
		for _, value := range values.denied {
			assert.NotEqual(t, turn.Allow, permitted(barred(pattern), path(value)), "%s of %.200q", pattern, value)
		}
		for _, value := range values.left {
			assert.Equal(t, turn.Allow, permitted(barred(pattern), path(value)), "%s of %.200q", pattern, value)
		}
	}
}

func TestARuleAllowsNoDisguise(t *testing.T) {
	for pattern, values := range map[string]struct{ allowed, denied []string }{
		"/work/**": {
			[]string{"/work/a", "/work/..a", "/work/.a", "/work/A/b-c_d.e"},
			[]string{
				"/work/a b/c", "/work/...", "/work/a;b", "/work/ünïcode/日本", "/work/a%20b", "/work/100%",
				"/work/Foo$Bar.class", "/work/a.", "/work/🎉", "/work/.é", "/work/a?b",
				"/work/%252e%252e/etc", "/work/%25/x", "/work/．．/etc", "/work/..;/etc", "/work/..;x=y/etc", "/work/.. /etc",
				"/work/ ../etc", "/work/. ./etc", "/work/..\u00a0/etc", "/work/‥/etc", "/work/．./etc",
				"/work/․․/etc", "/work/﹒﹒/etc", "/work/。。/etc", "/work/.\u200b./etc", "/work/..\ufeff/etc",
				"/work/.\u00ad./etc", "/work/..é/etc", "/work/.é./etc", "/work/..%20/etc", "/work/..%3b/etc",
				"/work/%EF%BC%8E%EF%BC%8E/etc", "/work/%%32e%%32e/etc", "/work/%u002e%u002e/etc", "/work/%c0%ae%c0%ae/etc",
				"/work/%e0%80%ae/etc", "/work/..?x", "/work/..#x", "/work/..:x/etc", "/work/..,/etc",
				"/work/a／..／../etc", "/work/a＼..＼..", "/work/.$Z./etc", "/work/.${Z}./etc", "/work/$X", "/work/.$1./etc",
				"/work/%09/..", "/work/.. ./etc", "/work/...\u3000/etc",
			},
		},
		"*": {[]string{"a", "a.b", "7"}, []string{"...", "a$b", "note: b", "-rf", "@file", "$HOME", "${X}", "%appdata%",
			"～", "～root", "Ｃ：a", "／etc", "\u200b~", "．．", "https:evil.com", "file:passwd", "‥"}},
		"**": {[]string{"a", "a/b"}, []string{"$HOME/x", "\u200b/etc/passwd", "\ufeff~/x", "ｆile：/etc/passwd",
			"\u3000/etc", "%2fetc", "https:evil.com/x", "a/‥/b"}},
		"/**": {[]string{"/a", "/a/b"}, []string{"//evil.com/x", "/../a", "/a/．．/b"}},
		"https://*.example.com/**": {
			[]string{"https://a.example.com/x", "https://a-1.b.example.com/x/", "https://a.example.com/x?q=1&r=2"},
			[]string{"https://a-1.b.example.com/x%20y", "https://A.example.com/x", "https://a.example.com/x?q=1&r=2;3",
				"https://a.example.com/x#y", "https://evil.com;.example.com/", "https://evil.com;.example.com/x",
				"https://evil.com&.example.com/x", "https://.example.com/", "https://.example.com/x",
				"https://evil.com,.example.com/x",
				"https://evil.com!.example.com/x", "https://evil.com$.example.com/x", "https://evil.com|.example.com/x",
				"https://evil.com'.example.com/x", "https://evil.com(.example.com/x", "https://evil.com_.example.com/x",
				"https://evil.com[.example.com/x", "https://evil.com<.example.com/x", "https://evil.com\u200b.example.com/x",
				"https://evil.com℀.example.com/x", "https://a..example.com/x",
				"https://a.example.com/..;/x", "https://a.example.com/..?x", "https://a.example.com/．．/x"},
		},
		"https://example.com/work/**": {[]string{"https://example.com/work/a"},
			[]string{"https://example.com/work/..?x", "https://example.com/work/..;x", "https://example.com/work/..#x",
				"https://example.com/work/%252e%252e/x"}},
		"https://*:8080/**": {[]string{"https://a.com:8080/x"},
			[]string{"https://evil.com:80:8080/x", "https://u@evil.com:8080/x", "https://:8080/x"}},
		"https://[ab].example.com/**": {nil, []string{"https://a.example.com/x", "https://c.example.com/x"}},
		"10.0.0.*":                    {[]string{"10.0.0.7"}, []string{"10.0.0.evil.com", "10.0.0.1.evil.com", "10.0.0.07"}},
		"https://10.0.*/**":           {[]string{"https://10.0.0.7/x"}, []string{"https://10.0.0.evil.com/x"}},
		"*@192.168.*.*":               {[]string{"a@192.168.0.1"}, []string{"a@192.168.evil.com"}},
		"https://*.corp.com": {[]string{"https://a.corp.com"},
			[]string{"https://evil.com?.corp.com", "https://evil.com?a=.corp.com", "https://a.corp.com?x"}},
		"https://cdn.corp.com/*.png": {[]string{"https://cdn.corp.com/a.png"},
			[]string{"https://cdn.corp.com/delete-all?x=.png"}},
		"https://cdn.corp.com/**": {[]string{"https://cdn.corp.com/a?x=1"}, []string{"https://cdn.corp.com?x=1"}},
		`http://\[::1\]/**`:       {nil, []string{"http://[::1]/x", "http://[::2]/x"}},
		"*://a.com/**":            {[]string{"https://a.com/x"}, []string{"evil.com?://a.com/x", "https://evil.com"}},
		"//*.example.com/**":      {nil, []string{"//a.example.com/x", "//evil.com;.example.com/x", "//.example.com/x"}},
	} {
		for _, value := range values.allowed {
			assert.Equal(t, turn.Allow, permitted(confined(pattern), path(value)), "%s of %q", pattern, value)
		}
		for _, value := range values.denied {
			assert.Equal(t, turn.Deny, permitted(confined(pattern), path(value)), "%s of %q", pattern, value)
		}
	}
}

// TestNoEvasionIsAllowed is the table of calls that once evaded a rule without approval, as JSON values.
func TestNoEvasionIsAllowed(t *testing.T) {
	type row struct{ pattern, values string }
	check := func(permit turn.Permission, rows []row) {
		for _, c := range rows {
			// The other calls of the tool need approval if the rule allows, and none if it denies.
			rule := turn.Rule{Tool: "*", Arguments: map[string]string{"v": c.pattern}, Permit: permit}
			p := turn.Policy{Allow: []string{"*"}, Rules: []turn.Rule{rule}}
			if permit == turn.Allow {
				p.Ask = p.Allow
			}
			for _, value := range strings.Fields(c.values) {
				got := p.Permit(writeFile, []byte(`{"v":`+value+`}`))
				assert.NotEqual(t, turn.Allow, got.Permission, "%s %s of %s", permit, c.pattern, value)
			}
		}
	}
	check(turn.Allow, []row{
		{"10.0.0.*", `"10.0.0.evil.com" "10.0.0.1.evil.com" "10.0.0.com"`},
		{"127.0.0.*", `"127.0.0.evil.com"`},
		{"192.168.*.*", `"192.168.evil.com"`},
		{"10.*", `"10.evil.com" "10.com"`},
		{"10.0.0.*/**", `"10.0.0.evil.com/x" "10.0.0.com/x"`},
		{"10.0.0.*/x", `"10.0.0.evil.com/x"`},
		{"10.0.0.*/*/x", `"10.0.0.evil.com/a/x"`},
		{"host-10.0.0.*", `"host-10.0.0.evil.com" "host-10.0.0.com"`},
		{"host-10.0.0.*/**", `"host-10.0.0.evil.com/x" "host-10.0.0.com/x"`},
		{"registry-*/**", `"registry-evil.com/x"`},
		{"https://corp*/**", `"https://corp.evil.com/x" "https://corp.com/x"`},
		{"https://10-0-0-*/**", `"https://10-0-0-evil.com/x"`},
		{"http://10.0.0.*/**", `"http://10.0.0.evil.com/x"`},
		{"*@corp*", `"a@corp.evil.com"`},
		{"https://*.corp.com", `"https://evil.com?a=.corp.com" "https://evil.com?.corp.com"`},
		{"https://cdn.corp.com/*.png", `"https://cdn.corp.com/delete-all?x=.png"`},
		{"???", `9e9 9E9 "9e9" 1E9 0x9`},
		{"?.???", `1.1e9 1.1E9`},
		{"*.??", `1e99 9.9e9 1.5e9`},
		{"1??", `1e9 1.5 "1.5"`},
		{"*00", `-500 5e5`},
		{"[1-9]??", `9e9 "9e9"`},
		{"[1-9]*", `9e9`},
		{"*", `1e9 [] [[]] {} [1e9]`},
		{"**", `1e9 [] {}`},
	})
	check(turn.Deny, []row{
		{"????*", `1e9 9e9 5000 "1e9"`},
		{"*??????", `1e99 9e9`},
		{"*.*", `1e-1 5E-1`},
		{"1e*", `10 100000 1E5 "1e5" "100000"`},
		{"*e5", `100000`},
		{"1_000", `1000`},
		{"[0-9][0-9][0-9][0-9]*", `1e4 9e99 1E9 "0x3e8" 5000`},
		{"1000", `true 1000.0 1e3 [1e3]`},
		{"0", `false -0 0.0 "00" null ""`},
		{"true", `1 "1" "yes" "on" "t" "TRUE"`},
		{"true*", `1 "yes" "on"`},
		{"True", `1 "yes" "on" true "true"`},
		{"TRUE", `1 "yes" "on" true "true"`},
		{"yes", `true 1 "y" "on"`},
		{"t*", `1 true`},
		{"*", `[] {} 0 [null] [[]]`},
		{"**", `[] {} [null]`},
		{"10.0.0.[0-9]", `"10.0.0.05" "167772165" "10.5" "0xa000005"`},
		{"10.0.0.0/8", `"10.1.2.3"`},
		{"10.0.0.*", `167772165 "167772165" "http://10.0.0.1/x"`},
		{"http://evil.com:443/**", `"https://evil.com/x"`},
		{"localhost", `"127.0.0.1" "127.1" 0`},
		{"https://localhost/**", `"https://127.0.0.1/x"`},
		{"127.0.0.1", `"localhost" "127.0.0.2"`},
		{"evil.com", `"evil.com/x" "https://evil.com"`},
		{"*.evil.com", `"a.evil.com/x" "https://a.evil.com/x"`},
		{"/srv/app/secrets/**", `"secrets/key" "app/secrets/key" "srv/app/secrets/key"`},
		{"/root/.ssh/**", `".ssh/id_rsa" "~/.ssh/id_rsa"`},
		{"/etc/passwd", `"passwd"`},
		{"secrets/**", `"app/secrets/x" "/x/secrets/x"`},
		{"../secrets/**", `"/srv/secrets/key" "secrets/key" "../secrets/key"`},
		{"app/private/**", `"private/key" "/srv/app/private/key"`},
		{"*/secrets/**", `"secrets/x" "/a/b/secrets/x"`},
		{"**/.env", `".env" "a/.env"`},
		{"~/.ssh/**", `"user/.ssh/id_rsa" "/root/.ssh/x" ".ssh/x"`},
	})
	for _, key := range []string{"V", "v.", "v[]", " v", "v\u0000"} {
		rules := []turn.Rule{{Tool: "*", Arguments: map[string]string{"v": "evil"}, Permit: turn.Deny}}
		assert.Equal(t, turn.Ask, permitted(rules, `{"`+key+`":"evil"}`), key)
	}
}

// TestADenialHoldsInEveryWorkingDirectory resolves patterns and paths from all working directories of a small tree. A
// path that the pattern denies must not be allowed, except from a directory inside the folder that the pattern names.
func TestADenialHoldsInEveryWorkingDirectory(t *testing.T) {
	paths := func(names ...string) (all []string) {
		level := []string{""}
		for range 3 {
			var next []string
			for _, path := range level {
				for _, name := range names {
					next = append(next, strings.TrimPrefix(path+"/"+name, "/"))
				}
			}
			all, level = append(all, next...), next
		}
		for _, path := range all {
			all = append(all, "/"+path)
		}
		return all
	}
	resolve := func(directory, path string) string {
		if strings.HasPrefix(path, "/") {
			return path
		}
		return filepath.Join(directory, path)
	}
	directories := []string{"/", "/a", "/b", "/a/b", "/b/a", "/a/a/b"}
	named := func(pattern, value string) bool {
		for _, theirs := range directories {
			for _, ours := range directories {
				segments := strings.Split(resolve(ours, pattern), "/")
				directory := strings.Split(strings.TrimSuffix(theirs, "/"), "/")
				inside := len(directory) >= len(segments) || strings.Trim(strings.Join(segments[len(directory):], ""), "*") == ""
				if inside && !strings.HasPrefix(value, "/") {
					continue
				}
				if ok, _ := filepath.Match(resolve(ours, pattern), resolve(theirs, value)); ok {
					return true
				}
			}
		}
		return false
	}
	denied := 0
	for _, pattern := range paths("a", "b", "*") {
		for _, value := range paths("a", "b") {
			if named(pattern, value) {
				denied++
				assert.NotEqual(t, turn.Allow, permitted(barred(pattern), path(value)), "%s of %s", pattern, value)
			}
		}
	}
	assert.NotZero(t, denied)
}

// TestNoWildcardAllowsAnotherDomain tries all host names of a few labels: the owner of an allowed name must also own
// the last label of the pattern.
func TestNoWildcardAllowsAnotherDomain(t *testing.T) {
	names := func(labels ...string) (all []string) {
		level := labels
		for range 3 {
			all = append(all, level...)
			var next []string
			for _, name := range level {
				for _, label := range labels {
					next = append(next, name+"."+label)
				}
			}
			level = next
		}
		return all
	}
	forms := []string{"HOST", "HOST/x", "HOST/**", "https://HOST/x", "a@HOST"}
	for _, pattern := range names("corp", "*", "10", "1*") {
		if pattern == "*" {
			continue // every host
		}
		for _, host := range names("corp", "evil", "10") {
			top := host[strings.LastIndex(host, ".")+1:]
			if top == host || top == "10" || strings.HasSuffix(pattern, "."+top) || pattern == top {
				continue
			}
			for _, form := range forms {
				rule, value := strings.Replace(form, "HOST", pattern, 1), strings.NewReplacer("HOST", host, "**", "x").Replace(form)
				assert.NotEqual(t, turn.Allow, permitted(confined(rule), path(value)), "%s of %s", rule, value)
			}
		}
	}
}

func TestPatternsThatCannotDecide(t *testing.T) {
	for _, pattern := range []string{
		"", "/", "?", "???", "*.*", "-*", "[a]", `a\*`, "a/**/b", "**/a", "https://**", "//**", "a**", "10.0.0.0/8",
		"../a", "a/../b", "./a", "~/a", "a/", "a//b", "a b", "é", "C:/x", "0x3e8", "1e3", "1e*", "*e5", "+1", "007", "1.0",
		"True", "true*",
		"10.0.0.256", "10.0.0.*:80", "https://A.com", "https://a.com:443/**", "git@a.com/x", "a@b@c",
	} {
		assert.Error(t, turn.CheckPattern(pattern), pattern)
		assert.NotEqual(t, turn.Allow, permitted(confined(pattern), path(pattern)), pattern)
		assert.Equal(t, turn.Ask, permitted(barred(pattern), path("harmless")), pattern)
	}
	for _, pattern := range []string{
		"*", "**", "*/**", "/**", "a", "a.b", "docs/**", "/srv/*.txt", "file?.txt", "report-*", "*.corp.com", "*.key",
		"2026-01-*",
		"null", "1000", "-0.5", "1??", "*00", "true", "no", "10.0.0.*", "10.0.*", "192.168.*.*", "10.0.0.*/**", "*@corp.com",
		"*@*",
		"a@10.0.0.*", "https://*/**", "https://10.*/x", "*://a.com/**", "https://a.com:8443",
	} {
		assert.NoError(t, turn.CheckPattern(pattern), pattern)
	}
}
