package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"
)

// Options are the settings of a store; the zero value is good.
type Options struct {
	// Readers is how many Views run at a time; others wait. 0 means 4, or the
	// number of CPUs if that is more.
	Readers int

	// Reserve is how many bytes of disk are kept for the time when it is full,
	// see Store.Release. 0 means 4 MiB, a negative number none.
	Reserve int64

	// Temporary is for a directory that is of no use once the program has ended: whatever durability is asked for, no Update waits for the disk.
	Temporary bool

	// Daemon says in the lock that the program serves others on the directory, see LockedError.
	Daemon bool
}

// Store is an open state directory. All methods may be called concurrently.
type Store struct {
	file         string
	installation string
	schema       *schema

	db      *sql.DB
	readers chan *session // a nil stands for a connection not made yet

	queue   queue
	written chan error // the end of the writer; nil if read-only
	lock    *os.File   // nil if read-only

	full fullness

	closing  sync.Once
	closeErr error
}

const (
	databaseFile = "slipway.db"
	markerFile   = "installation" // its id: there is, or was, a database
)

// Open opens the state directory dir for this process alone, making it (0700)
// if there is none, and brings its database up to date.
//
// It fails with *LockedError if another process (or another Store of this one)
// has it, *VersionError if the database is newer than this program,
// *DamagedError if it is damaged or gone missing, and *FileError if the system
// does not let it be opened, read or written; each leaves the files as they were.
// ctx bounds the opening only.
func Open(ctx context.Context, dir string, opts Options) (*Store, error) {
	s, err := open(ctx, dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, dir string, opts Options) (_ *Store, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := newStore(dir, opts)
	if s.lock, err = lock(dir, opts.Daemon); err != nil {
		return nil, err
	}
	session, err := s.prepare(ctx, dir, opts.Temporary)
	if err != nil && noRoom(dir, err) && s.db != nil && giveReserve(dir) { // a host that cannot be opened cannot make room
		err = s.db.Close()
		if err == nil {
			session, err = s.prepare(ctx, dir, opts.Temporary)
		}
	}
	if err != nil {
		if noRoom(dir, err) && !errors.Is(err, ErrFull) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return nil, errors.Join(err, s.release())
	}
	w := &writer{
		file:    s.file,
		schema:  s.schema,
		queue:   &s.queue,
		session: session,
		reserve: openReserve(dir, opts.Reserve),
		current: PowerSafe, // as prepare left it
		temp:    opts.Temporary,
		full:    &s.full,
	}
	if !w.reserve.whole() {
		s.full.begin(fmt.Errorf("%s: %w: %w", w.file, ErrFull, w.reserve.why))
	}
	s.written = make(chan error, 1)
	go func() { s.written <- w.loop() }()
	return s, nil
}

// OpenReadOnly opens the state directory dir to look at it, also while a host
// has it. It needs a directory that a host of this version has opened before;
// it takes no lock, migrates nothing, and Update answers ErrReadOnly. Its errors
// are those of Open but for *LockedError; an older database is a *VersionError too.
func OpenReadOnly(ctx context.Context, dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	s := newStore(dir, Options{})
	if err := s.look(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open state: %w", err), s.release())
	}
	return s, nil
}

func newStore(dir string, opts Options) *Store {
	n := opts.Readers
	if n <= 0 {
		n = max(4, runtime.NumCPU())
	}
	s := &Store{
		file:    filepath.Join(dir, databaseFile),
		schema:  newSchema(),
		readers: make(chan *session, n),
	}
	s.queue.init()
	for range n {
		s.readers <- nil
	}
	return s
}

// prepare checks and migrates the database; the session is the writer's.
func (s *Store) prepare(ctx context.Context, dir string, temporary bool) (_ *session, err error) {
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	marker := filepath.Join(dir, markerFile)
	if err := s.touch(marker); err != nil {
		return nil, err
	}
	if s.db, err = sql.Open("sqlite", dsn(s.file, readWrite)); err != nil {
		return nil, err
	}
	s.db.SetMaxIdleConns(0) // sessions hold their connections for as long as they live
	w, err := newSession(ctx, s.db)
	if err != nil {
		return nil, translate(s.file, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(translate(s.file, err), w.close())
		}
	}()
	if err := check(ctx, w, s.file); err != nil {
		return nil, err
	}
	// Before anything is written: a newer file is not even switched to WAL.
	v, err := w.version(ctx)
	if err != nil {
		return nil, err
	}
	if v > len(steps) {
		return nil, &VersionError{File: s.file, Has: v, Own: len(steps)}
	}
	if err := versioned(ctx, w, s.file, v); err != nil {
		return nil, err
	}
	if v == 0 { // only a file without a table takes it; see Shrink
		if _, err := w.conn.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
			return nil, err
		}
	}
	synchronous := "FULL" // so that the installation is durable; the writer then sets its own
	if temporary {
		synchronous = "OFF"
	}
	for _, pragma := range []string{
		"PRAGMA synchronous = " + synchronous,
		"PRAGMA journal_mode = WAL",
		"PRAGMA journal_size_limit = 16777216", // what one huge transaction made the log grow to is given back
	} {
		if _, err := w.conn.ExecContext(ctx, pragma); err != nil {
			return nil, err
		}
	}
	if err := migrate(ctx, w, s.file, steps); err != nil {
		return nil, err
	}
	return w, s.install(ctx, w, marker)
}

// touch makes the database file, for SQLite would make it readable by all.
func (s *Store) touch(marker string) error {
	there, err := s.present(marker)
	if err != nil || there {
		return err
	}
	f, err := os.OpenFile(s.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// present tells whether there is something in the database file. An
// installation whose database is gone or empty is not taken for a new one.
func (s *Store) present(marker string) (bool, error) {
	info, err := os.Stat(s.file)
	if err == nil && info.Size() > 0 {
		return true, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	id, err := os.ReadFile(marker)
	if err == nil {
		return false, &DamagedError{File: s.file, Detail: fmt.Sprintf("the database of installation %s is missing or empty", strings.TrimSpace(string(id)))}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return false, nil
}

// install reads the installation's id, and makes it the first time.
func (s *Store) install(ctx context.Context, w *session, marker string) error {
	err := w.conn.QueryRowContext(ctx, "SELECT id FROM installation").Scan(&s.installation)
	if errors.Is(err, sql.ErrNoRows) {
		s.installation = strings.ToLower(rand.Text())
		_, err = w.conn.ExecContext(ctx, "INSERT INTO installation (id) VALUES (?)", s.installation)
	}
	if err != nil {
		return misfit(s.file, err)
	}
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	return os.WriteFile(marker, []byte(s.installation+"\n"), 0o600)
}

// look is prepare for a store that is only read.
func (s *Store) look(ctx context.Context) error {
	if _, err := s.present(filepath.Join(filepath.Dir(s.file), markerFile)); err != nil {
		return err
	}
	if _, err := os.Stat(s.file); err != nil {
		return err
	}
	err := s.lookAs(ctx, readOnly)
	full := err != nil && noRoom(filepath.Dir(s.file), err)
	if code(err) != sqlite3.SQLITE_CANTOPEN && !full {
		return err
	}
	if full && !errors.Is(err, ErrFull) {
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	// SQLite could not make the files by which readers share a log. Without a
	// log they are not needed.
	if info, e := os.Stat(s.file + "-wal"); e == nil && info.Size() > 0 {
		return err
	}
	return errors.Join(s.db.Close(), s.lookAs(ctx, immutable))
}

func (s *Store) lookAs(ctx context.Context, a access) (err error) {
	steps, err := migrations()
	if err != nil {
		return err
	}
	if s.db, err = sql.Open("sqlite", dsn(s.file, a)); err != nil {
		return err
	}
	s.db.SetMaxIdleConns(0)
	r, err := newSession(ctx, s.db)
	if err != nil {
		return translate(s.file, err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	v, err := r.version(ctx)
	if err != nil {
		return translate(s.file, err)
	}
	if err := versioned(ctx, r, s.file, v); err != nil {
		return translate(s.file, err)
	}
	if v != len(steps) {
		return &VersionError{File: s.file, Has: v, Own: len(steps)}
	}
	err = r.conn.QueryRowContext(ctx, "SELECT id FROM installation").Scan(&s.installation)
	if errors.Is(err, sql.ErrNoRows) { // a host was killed while it made the directory
		return fmt.Errorf("%s is not finished: start the host once, it completes the file", s.file)
	}
	return misfit(s.file, err)
}

// check reads the whole database. SQLite has no checksums, so it finds broken
// structure, not a changed letter in a value.
func check(ctx context.Context, s *session, file string) error {
	var verdict string
	if err := s.conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return &DamagedError{File: file, Detail: verdict}
	}
	return nil
}

// Installation is the id of this state directory, made once, of [a-z0-9].
func (s *Store) Installation() string { return s.installation }

// Close lets the Updates that wait and the Views that run end, then closes the
// database and gives the lock back. Later calls of anything answer ErrClosed;
// Close again answers what it did the first time. It must not be called from
// the function of an Update or a View.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closeErr = s.release() })
	return s.closeErr
}

func (s *Store) release() error {
	s.queue.close()
	var errs []error
	if s.written != nil {
		errs = append(errs, <-s.written)
	}
	for range cap(s.readers) {
		if r := <-s.readers; r != nil {
			errs = append(errs, r.close())
		}
	}
	for range cap(s.readers) { // a View may have begun before the queue was closed, and wait for one
		s.readers <- nil
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, unlock(s.lock)) // last: until here the directory is ours
	}
	return errors.Join(errs...)
}
