package claim

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Features are what this server can do beyond the required. It is found out once, by a small archive through a volume that is destroyed again.
func (s *Store) Features(ctx context.Context) ([]sdk.Feature, error) {
	unlock, err := s.locks.exclusive(ctx, "features")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if known := s.found.known(); known != nil {
		return known, nil
	}
	if err := s.sweep(ctx); err != nil {
		return nil, err
	}
	features := []sdk.Feature{}
	if len(s.config.Imports) > 0 {
		features = append(features, sdk.FeatureVolumeImport)
	}
	switch _, err := s.peers(ctx); {
	case err == nil:
		features = append(features, sdk.FeaturePeerStream)
	case !errors.Is(err, sdk.Unsupported):
		return nil, err
	}
	if err := s.scratch(ctx, func(v Volume) error {
		found, err := s.tarFeatures(ctx, v)
		features = append(features, found...)
		return err
	}); err != nil {
		if _, notMade := errors.AsType[*notMade](err); notMade || errors.Is(err, errBadStream) {
			err = cmp.Or(s.tryRoom(ctx), err)
		}
		return nil, err
	}
	s.found.setFeatures(features)
	return features, nil
}

const probeTime = 951_782_400 // in 2000: no volume is that old

// tarFeatures finds out what archives keep on their way in and out.
func (s *Store) tarFeatures(ctx context.Context, v Volume) ([]sdk.Feature, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	old := time.Unix(probeTime, 0)
	err := errors.Join(
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "dir/", Mode: 0o755, ModTime: old}),
		w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: "attribute", Mode: 0o644, ModTime: old, Format: tar.FormatPAX,
			PAXRecords: map[string]string{"SCHILY.xattr.user.slipway": "kept"},
		}),
		// After another: GNU tar gives a directory its time when it leaves it, and spoils it when it comes back.
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "dir/file", Mode: 0o644, ModTime: old}),
		w.Flush(),
	)
	b.Write(sparseFile("holes", 1<<20))
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, sdk.NewInternal(err, "making an archive: %v", err)
	}
	if err := s.put(ctx, v.ID, "", b.Bytes()); err != nil {
		return nil, err
	}
	var device bytes.Buffer
	w = tar.NewWriter(&device)
	err = errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeChar, Name: "device", Devmajor: 1, Devminor: 3, Mode: 0o600}), w.Close())
	if err != nil {
		return nil, sdk.NewInternal(err, "making an archive: %v", err)
	}
	if err := s.put(ctx, v.ID, "", device.Bytes()); err != nil && !errors.Is(err, errBadStream) {
		return nil, err
	}
	var features []sdk.Feature
	err = s.headers(ctx, v, "", func(h *tar.Header) error {
		name, err := entryName(h.Name, h.Name)
		switch {
		case err != nil:
			return err
		case name == "dir" && h.ModTime.Unix() == probeTime:
			features = append(features, sdk.FeatureTarDirTimes)
		case name == "attribute" && h.PAXRecords["SCHILY.xattr.user.slipway"] == "kept":
			features = append(features, sdk.FeatureTarXattrs)
		case name == "holes" && (h.Typeflag == tar.TypeGNUSparse || h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != ""):
			features = append(features, sdk.FeatureTarSparse)
		case name == "device" && h.Typeflag == tar.TypeChar && h.Devmajor == 1 && h.Devminor == 3:
			features = append(features, sdk.FeatureTarDevices)
		}
		return nil
	})
	return features, err
}

// sparseFile is the entry of a file that is one hole, as GNU tar writes it; archive/tar writes none. Offsets are those of its header.
func sparseFile(name string, size int64) []byte {
	h := make([]byte, 512)
	number := func(at, digits int, n int64) { copy(h[at:], fmt.Sprintf("%0*o\x00", digits, n)) }
	copy(h, name)
	number(100, 7, 0o644)
	number(108, 7, 0) // owner
	number(116, 7, 0)
	number(124, 11, 0) // bytes that follow
	number(136, 11, probeTime)
	h[156] = tar.TypeGNUSparse
	copy(h[257:], "ustar  \x00")
	number(386, 11, size) // one piece of no bytes, at the end
	number(398, 11, 0)
	number(483, 11, size) // of the file
	sum := 8 * int64(' ')
	for _, c := range h {
		sum += int64(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// takesDevices is Unsupported unless device nodes can be unpacked. The server would fail only some of them: those that mean deletion to overlayfs
// anybody can make.
func (s *Store) takesDevices(ctx context.Context, name string) error {
	features, err := s.Features(ctx)
	if err != nil || slices.Contains(features, sdk.FeatureTarDevices) {
		return err
	}
	return &sdk.Error{Class: sdk.Unsupported, Feature: sdk.FeatureTarDevices, Message: fmt.Sprintf("archive entry %s is a device node, which baggageclaim %s cannot make", quote(name), s.url)}
}
