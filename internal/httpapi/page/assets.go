package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
)

//go:embed static templates
var files embed.FS

// asset is a file of static.
type asset struct {
	content, zipped []byte
	mediaType       string
}

// assets are the files of static under names with a hash of their content, so that browsers keep them for good.
type assets struct {
	files map[string]asset  // by their name with the hash
	paths map[string]string // by their own name
}

var mediaTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

func newAssets() (assets, error) {
	a := assets{map[string]asset{}, map[string]string{}}
	list, err := files.ReadDir("static")
	if err != nil {
		return a, err
	}
	for _, f := range list {
		content, err := files.ReadFile("static/" + f.Name())
		if err != nil {
			return a, err
		}
		var zipped bytes.Buffer
		w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is valid
		_, err = w.Write(content)
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			return a, fmt.Errorf("compressing %s: %w", f.Name(), err)
		}
		sum, ext := sha256.Sum256(content), path.Ext(f.Name())
		name := strings.TrimSuffix(f.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a.files[name] = asset{content, zipped.Bytes(), mediaTypes[ext]}
		a.paths[f.Name()] = "/assets/" + name
	}
	return a, nil
}

func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a.files[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.content
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	_, _ = w.Write(body) // an error means that the browser has left
}

// parseTemplates returns the templates with the functions that they use.
func parseTemplates(a assets) (*template.Template, error) {
	asset := func(name string) string { return a.paths[name] }
	t := template.New("").Funcs(functions).Funcs(template.FuncMap{"asset": asset})
	return t.ParseFS(files, "templates/*.html")
}
