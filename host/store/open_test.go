package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"
)

// openers are both ways to open a directory.
func openers() map[string]func(context.Context, string) (*Store, error) {
	return map[string]func(context.Context, string) (*Store, error){
		"open":           func(ctx context.Context, dir string) (*Store, error) { return Open(ctx, dir, Options{Reserve: -1}) },
		"open read-only": OpenReadOnly,
	}
}

// made is a state directory that a host has used, and its database.
func made(t *testing.T) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	if err := mustOpen(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, databaseFile)
}

// A database whose schema is not that of its version is damaged, whoever opens it, and is left alone.
func TestSchemaThatDoesNotFit(t *testing.T) {
	for name, text := range map[string]string{
		"tables without a version": "PRAGMA user_version = 0",
		"a table missing":          "DROP TABLE installation",
	} {
		for how, open := range openers() {
			t.Run(name+", "+how, func(t *testing.T) {
				dir, file := made(t)
				script(t, dir, text)
				before := read(t, file)
				_, err := open(t.Context(), dir)
				if damaged := (*DamagedError)(nil); !errors.As(err, &damaged) || damaged.File != file {
					t.Errorf("got %v", err)
				}
				if read(t, file) != before {
					t.Error("the file was changed")
				}
			})
		}
	}
}

// What the system refuses is told with the file's name and what to look at.
func TestFileThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, file string){
		"the database is a directory": func(t *testing.T, file string) {
			if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700), os.WriteFile(filepath.Join(file, "x"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		},
		"the log is a directory": func(t *testing.T, file string) {
			if err := os.Mkdir(file+"-wal", 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for how, open := range openers() {
			t.Run(name+", "+how, func(t *testing.T) {
				dir, file := made(t)
				spoil(t, file)
				_, err := open(t.Context(), dir)
				if e := (*FileError)(nil); !errors.As(err, &e) || e.File != file || e.Err == nil {
					t.Fatalf("got %v", err)
				}
				if text := err.Error(); strings.Count(text, file) != 1 || !strings.Contains(text, "look whether") {
					t.Errorf("got %q", text)
				}
			})
		}
	}
}

// Before a host has finished making the directory, there is nothing to look at, and no damage either.
func TestReadOnlyOfTheUnfinished(t *testing.T) {
	dir := t.TempDir()
	script(t, dir) // an empty file
	_, err := OpenReadOnly(t.Context(), dir)
	if version := (*VersionError)(nil); !errors.As(err, &version) || version.Has != 0 {
		t.Errorf("empty: %v", err)
	}
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	script(t, dir, append(steps, fmt.Sprintf("PRAGMA user_version = %d", len(steps)))...)
	if _, err := OpenReadOnly(t.Context(), dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, databaseFile)+" is not finished") {
		t.Errorf("without an installation: %v", err)
	}
	mustOpen(t, dir)
}

// SQLite's codes become what a person can act on, once.
func TestFileError(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, databaseFile)
	db, err := sql.Open("sqlite", dsn(file, readOnly)) // which is not there
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	first := translate(file, db.PingContext(t.Context()))
	if again := translate(file, first); again != first {
		t.Errorf("%v became %v", first, again)
	}
	if e := (*FileError)(nil); !errors.As(first, &e) || code(first)&0xff != sqlite3.SQLITE_CANTOPEN {
		t.Errorf("got %v", first)
	}
}
