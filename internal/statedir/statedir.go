package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Name is the name of the state folder.
const Name = ".everturn"

// Secure creates the folder dir with mode 0700 if it does not exist. It removes the permissions of group and others
// from an existing folder and from the files directly in it. It returns an error if dir or anything directly in it is a
// symbolic link, a hard link or another special file, if dir belongs to another user, or if dir is not empty and was
// not made by Secure: a folder that comes with a clone can hold grants and running turns. On a file system that cannot
// store modes, the mount options decide which users can read the folder.
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
		return fmt.Errorf("the folder %s belongs to user %d and this is user %d: run as that user, change the owner with "+
			"chown -R, or delete it", dir, owner, os.Geteuid())
	}
	removeOthersPermissions(dir, info)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the state folder: %w", err)
	}
	found := "" // dir, if it has more than .gitignore and the file with its origin
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := secureEntry(path)
		if err != nil {
			return err
		}
		isOurs := e.Name() == ".gitignore" || strings.HasPrefix(e.Name(), originName) // the latter also while it is written
		if info != nil && (!isOurs || info.IsDir() || info.Size() > maxMark) {
			found = dir
		}
	}
	return checkOrigin(dir, filepath.Join(dir, originName), found)
}

// maxMark is the maximum size of a .gitignore or an origin, in bytes. Any database is larger, so a journal with the
// name of one of them counts as state.
const maxMark = 100

// sqliteHeader begins every SQLite database that is not empty (https://www.sqlite.org/fileformat.html).
const sqliteHeader = "SQLite format 3\x00"

// SecureFile creates the SQLite database path with mode 0600 if it does not exist. Like Secure for a folder, it returns
// an error if the file, or one that SQLite keeps beside it, holds data and SecureFile did not make the database. The
// file path + ".origin" identifies it.
func SecureFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("%w: choose a folder that can be created", err)
	}
	beside := "" // a file beside the database that SQLite would read
	for _, suffix := range []string{"-wal", "-shm", "-journal", ".lock", "." + originName} {
		info, err := secureEntry(path + suffix)
		if err != nil {
			return err
		}
		if suffix[0] == '-' && info != nil && info.Size() > 0 {
			beside = path + suffix
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("%s is a link: Everturn does not write through links; delete it", path)
	}
	if err != nil {
		return fmt.Errorf("%w: make the file and its folder writable, or choose another path", err)
	}
	header := make([]byte, len(sqliteHeader))
	n, _ := io.ReadFull(f, header) // a short file has no header
	if err := f.Close(); err != nil {
		return err
	}
	if n > 0 && string(header[:n]) != sqliteHeader && beside == "" {
		return nil // not a database: opening it reports the error
	}
	if _, err := secureEntry(path); err != nil {
		return err
	}
	state := beside
	if n > 0 {
		state = path
	}
	return checkOrigin(path, path+"."+originName, state)
}

// originName is the name of the file that identifies a state folder by the folder's inode and birth time. A folder
// that was cloned, unpacked or copied has different ones; a folder that was moved within its file system keeps them.
const originName = "origin"

// Made reports whether Secure made the folder dir.
func Made(dir string) bool {
	identity, err := Identity(dir)
	return err == nil && recorded(filepath.Join(dir, originName), identity)
}

// recorded reports whether file contains the identity. It opens no special file, which could block.
func recorded(file, identity string) bool {
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxMark {
		return false
	}
	b, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(b)) == identity
}

// checkOrigin returns an error if file does not contain the identity of path and found is not empty: the path of what
// was found there, which the error names. If found is empty, checkOrigin writes the identity to file.
func checkOrigin(path, file, found string) error {
	identity, err := Identity(path)
	if err != nil {
		return fmt.Errorf("checking the origin of %s: %w", path, err)
	}
	switch {
	case recorded(file, identity):
		return nil
	case found != "":
		quoted := "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
		return fmt.Errorf("%s was not made here: it may contain the grants and running turns of another author. Delete it, "+
			"choose another path, or, if you copied it yourself, trust it with: echo %s >%s", found, identity, quoted)
	}
	if err := Replace(file, identity+"\n"); err != nil {
		return fmt.Errorf("writing the origin of %s: %w", path, err)
	}
	return nil
}

// Replace writes a file with mode 0600. It replaces an existing file atomically: another process that reads it gets
// either the old content or the new.
func Replace(file, content string) error {
	return ReplaceWith(file, func(string) ([]byte, error) { return []byte(content), nil })
}

// ReplaceWith is Replace with a content that may contain the identity of the new file: see Identity.
func ReplaceWith(file string, content func(identity string) ([]byte, error)) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	var b []byte
	identity, err := Identity(f.Name())
	if err == nil {
		b, err = content(identity)
	}
	if err == nil {
		_, err = f.Write(b)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// secureEntry checks and secures a file or folder in the state folder. It returns an error for links and special
// files, and removes the permissions of group and others. It returns nil if there is no such file.
func secureEntry(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // perhaps another process has just removed it
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("checking the state folder: %w", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is a link or not a file: Everturn does not write through links; delete it", path)
	case !info.IsDir() && info.Sys().(*syscall.Stat_t).Nlink > 1:
		return nil, fmt.Errorf("%s is a hard link to another file: Everturn does not write through links; delete it", path)
	}
	removeOthersPermissions(path, info)
	return info, nil
}

// removeOthersPermissions removes the permissions of group and others. It ignores errors: some file systems cannot
// change modes, and a file that this user may not change is reported when it is opened.
func removeOthersPermissions(path string, info fs.FileInfo) {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		_ = os.Chmod(path, mode&^0o077)
	}
}
