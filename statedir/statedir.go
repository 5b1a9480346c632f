package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Name is the name of the state folder.
const Name = ".everturn"

// Secure creates the folder dir with mode 0700 if it does not exist. It removes the permissions of group and others from an
// existing folder and from the files directly in it. It returns an error if dir or anything directly in it is a symbolic
// link or another special file, or if dir belongs to another user. A file system that cannot store modes keeps its own: the
// options of its mount then decide which users can read the folder.
func Secure(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("creating the parent of the state folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating the state folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("checking the state folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a link or not a folder: Everturn does not write through links; delete it", dir)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("the folder %s belongs to user %d and this is user %d: run as that user, change the owner with chown -R, or delete it",
			dir, owner, os.Geteuid())
	}
	tighten(dir, info)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the state folder: %w", err)
	}
	for _, e := range entries {
		if err := secureEntry(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func secureEntry(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // another process has just removed it
		return nil
	case err != nil:
		return fmt.Errorf("checking the state folder: %w", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%s is a link or not a file: Everturn does not write through links; delete it", path)
	}
	tighten(path, info)
	return nil
}

// tighten ignores errors: where modes cannot be changed, Secure has nothing better to offer, and a file that cannot be
// opened is reported when it is.
func tighten(path string, info fs.FileInfo) {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		_ = os.Chmod(path, mode&^0o077)
	}
}
