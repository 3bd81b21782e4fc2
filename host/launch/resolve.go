package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Resolve finds the program behind a configured command. One with a slash is a path, relative to configDir (empty: the
// working directory); one without is sought beside the running executable, then in PATH, whose empty and relative
// entries are skipped. The path is absolute. The error is an [*Error] with [ReasonNotFound] or
// [ReasonNotExecutable] that tells every place looked at.
func Resolve(command, configDir string) (string, error) {
	if command == "" {
		return "", &Error{Reason: ReasonNotFound, Message: "no command is configured"}
	}
	if strings.ContainsRune(command, '/') || strings.ContainsRune(command, filepath.Separator) {
		place := command
		if !filepath.IsAbs(place) {
			place = filepath.Join(configDir, place)
		}
		if abs, err := filepath.Abs(place); err == nil { // the message tells where, whatever the working directory
			place = abs
		}
		return resolveIn(command, []string{place}, "")
	}
	var places []string
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		places = append(places, filepath.Join(filepath.Dir(exe), command))
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if place := filepath.Join(dir, command); filepath.IsAbs(dir) && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return resolveIn(command, places, "; install it there, or configure the command with its path")
}

func resolveIn(command string, places []string, hint string) (string, error) {
	reason := ReasonNotFound
	var looked []string
	for _, place := range places {
		if runtime.GOOS == "windows" && filepath.Ext(place) == "" {
			place += ".exe"
		}
		err := executable(place)
		if err == nil {
			return filepath.Abs(place)
		}
		why := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			why = "not there"
		} else {
			reason = ReasonNotExecutable
		}
		looked = append(looked, fmt.Sprintf("%s (%s)", place, why))
	}
	return "", &Error{Reason: reason, Message: fmt.Sprintf("no program %q; looked at %s%s", command, strings.Join(looked, ", "), hint)}
}

// executable is nil for a regular file that somebody may execute.
func executable(path string) error {
	info, err := os.Stat(path)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
		return errors.New("not executable, chmod +x it")
	}
	return nil
}

// openPinned opens the program's file and checks its SHA-256. What it returns is the file that was checked, whatever becomes
// of the path. A file that everybody may write to is refused: it could change under the open file.
func openPinned(path, pin string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Reason: ReasonNotExecutable, Path: path, Cause: err,
			Message: fmt.Sprintf("cannot read the program to check its SHA-256: %v", err)}
	}
	sum, err := sumOf(f)
	if err != nil {
		f.Close()
		return nil, &Error{Reason: ReasonStart, Path: path, Cause: err, Message: fmt.Sprintf("cannot read %s: %v", path, err)}
	}
	if !strings.EqualFold(sum, pin) {
		f.Close()
		return nil, &Error{Reason: ReasonChecksum, Path: path, Message: fmt.Sprintf(
			"%s has another SHA-256 than the configured one: the file has %s, the configuration says %s; "+
				"if the file was replaced on purpose, configure its sum", path, sum, pin)}
	}
	if info, err := f.Stat(); err == nil && runtime.GOOS != "windows" && info.Mode()&0o002 != 0 {
		f.Close()
		return nil, &Error{Reason: ReasonChecksum, Path: path, Message: fmt.Sprintf(
			"%s can be changed by everybody (mode %v), so its SHA-256 proves nothing; chmod o-w it", path, info.Mode())}
	}
	return f, nil
}

// sumOf hashes from the start of the file.
func sumOf(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sumAt hashes the file at path; empty if it cannot be read.
func sumAt(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum, _ := sumOf(f)
	return sum
}
