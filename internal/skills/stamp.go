package skills

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Stamp returns a hash that changes when the result of Read changes, without reading any file: of the path, size and
// modification time of each SKILL.md, of the names of the files beside it, and of errors.
func Stamp(sources []Source) string {
	h := sha256.New()
	for _, source := range sources {
		folders, err := source.folders()
		fmt.Fprintf(h, "%q %v\n", source.Path, err)
		for _, folder := range folders {
			names, err := resources(folder)
			fmt.Fprintf(h, "%q %v\n", names, err)
			StampFile(h, filepath.Join(folder, File))
		}
	}
	return string(h.Sum(nil))
}

// StampFile writes a line to w that changes when the file does.
func StampFile(w io.Writer, name string) {
	info, err := os.Stat(name)
	if err != nil {
		fmt.Fprintf(w, "%q %v\n", name, err)
		return
	}
	fmt.Fprintf(w, "%q %d %d %s\n", name, info.Size(), info.ModTime().UnixNano(), info.Mode())
}
