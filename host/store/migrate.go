package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations lists the steps from an empty database to the newest schema; the
// n-th makes version n. A step that was released is never edited.
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]string, 0, len(names))
	for i, name := range names {
		if want := fmt.Sprintf("migrations/%04d.sql", i+1); name != want {
			return nil, fmt.Errorf("migration %s found where %s belongs", name, want)
		}
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(text))
	}
	return steps, nil
}

// migrate brings the database up to the last step in one transaction: who reads meanwhile sees the version before, or the last one. A step that
// fails leaves the version before.
func migrate(ctx context.Context, s *session, file string, steps []string) error {
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	if version > len(steps) {
		return &VersionError{File: file, Has: version, Own: len(steps)}
	}
	if err := versioned(ctx, s, file, version); err != nil {
		return err
	}
	if version == len(steps) {
		return nil
	}
	exec := func(text string) error {
		_, err := s.conn.ExecContext(ctx, text)
		return err
	}
	err = exec("BEGIN IMMEDIATE")
	for n := version; n < len(steps) && err == nil; n++ {
		if err = exec(steps[n]); err != nil {
			err = fmt.Errorf("step %d: %w", n+1, err)
		}
	}
	if err == nil {
		err = exec(fmt.Sprintf("PRAGMA user_version = %d", len(steps))) // SQLite keeps it with the pages, so it commits with them
	}
	if err == nil {
		err = exec("COMMIT")
	}
	if err != nil {
		return fmt.Errorf("bring %s from version %d to %d: %w", file, version, len(steps), errors.Join(err, s.abandon()))
	}
	return nil
}

// versioned refuses tables without a version: nothing of ours leaves them so.
func versioned(ctx context.Context, s *session, file string, version int) error {
	if version != 0 {
		return nil
	}
	var tables int
	if err := s.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	if tables != 0 {
		return &DamagedError{File: file, Detail: "it has tables, but no version of its schema"}
	}
	return nil
}
