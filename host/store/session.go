package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"
)

// access is how a database is opened.
type access int

const (
	readWrite access = iota
	readOnly
	immutable // on a medium that nobody writes: without the files for sharing
)

// dsn is what the driver opens file by, whatever characters its path has.
func dsn(file string, a access) string {
	q := url.Values{}
	// Nobody else writes; only recovery after a crash ever waits for a lock.
	q.Add("_pragma", "busy_timeout(5000)")
	// What SQLite needs for a moment, such as the old pages of a statement that changes many, is in memory: a process that is killed while it has
	// a file for that leaves it behind, where nobody looks for it.
	q.Add("_pragma", "temp_store(MEMORY)")
	q.Set("mode", "rw")
	if a != readWrite {
		q.Set("mode", "ro")
	}
	if a == immutable {
		q.Set("immutable", "1")
	}
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") { // C:/dir
		path = "/" + path
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}
	return u.String()
}

// session is one connection with its prepared statements; one goroutine uses
// it at a time. Statements are never interrupted: they are short, and those
// that walk many rows look at their context between rows.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func newSession(ctx context.Context, db *sql.DB) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, stmts: map[string]*sql.Stmt{}}, nil
}

// stmt prepares query, once. Only for the fixed texts of this package.
func (s *session) stmt(query string) (*sql.Stmt, error) {
	if st, ok := s.stmts[query]; ok {
		return st, nil
	}
	st, err := s.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	s.stmts[query] = st
	return st, nil
}

func (s *session) exec(query string, args ...any) (sql.Result, error) {
	st, err := s.stmt(query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(context.Background(), args...)
}

// abandon rolls back whatever transaction is open. That none is, is no error:
// after some failures SQLite has ended the transaction itself.
func (s *session) abandon() error {
	_, err := s.exec("ROLLBACK")
	if err == nil || code(err) == sqlite3.SQLITE_ERROR {
		return nil
	}
	return err
}

func (s *session) version(ctx context.Context) (v int, err error) {
	err = s.conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v)
	return v, err
}

func (s *session) close() error {
	var errs []error
	for _, st := range s.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}
