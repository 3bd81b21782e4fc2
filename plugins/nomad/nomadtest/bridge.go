//go:build linux

package nomadtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// name is the site's own word, unique on this machine.
func (s *site) name() string { return filepath.Base(s.dir) }

// bridge is the name of the network device that the site's Docker containers are on. A device's name has at most 15 bytes.
func (s *site) bridge() string {
	name := "slw" + strings.TrimPrefix(s.name(), dirPrefix)
	return name[:min(len(name), unix.IFNAMSIZ-1)]
}

// makeBridge makes the bridge, with an address that nothing else of this machine has.
func (s *site) makeBridge() error {
	own, err := freeSubnet()
	if err != nil {
		return err
	}
	return withSocket(func(fd int) error {
		if err := bridgeCall(fd, unix.SIOCBRADDBR, s.bridge()); err != nil {
			return err
		}
		for _, step := range []struct {
			call uint
			set  func(*unix.Ifreq) error
		}{
			{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(own.AsSlice()) }},
			{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
			{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }},
		} {
			r, err := unix.NewIfreq(s.bridge())
			if err == nil {
				err = step.set(r)
			}
			if err == nil {
				err = unix.IoctlIfreq(fd, step.call, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// removeBridge removes it. That there is none is no error.
func (s *site) removeBridge() error {
	if !s.hasBridge() {
		return nil
	}
	err := withSocket(func(fd int) error {
		r, err := unix.NewIfreq(s.bridge())
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil { // down: one that is up is busy
			return err
		}
		return bridgeCall(fd, unix.SIOCBRDELBR, s.bridge())
	})
	if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("remove the bridge %s: %w", s.bridge(), err)
	}
	return nil
}

func (s *site) hasBridge() bool {
	if !strings.HasPrefix(s.name(), dirPrefix) {
		return false
	}
	_, err := net.InterfaceByName(s.bridge())
	return err == nil
}

func withSocket(use func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return use(fd)
}

// bridgeCall makes or removes a bridge: the two calls take a name and nothing else.
func bridgeCall(fd int, call uintptr, bridge string) error {
	var name [unix.IFNAMSIZ]byte
	copy(name[:len(name)-1], bridge)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), call, uintptr(unsafe.Pointer(&name))); e != 0 {
		return e
	}
	return nil
}

// freeSubnet chooses the first address of a network of 256 which no device of this machine is in.
func freeSubnet() (netip.Addr, error) {
	used, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, err
	}
	for range 100 {
		own := netip.AddrFrom4([4]byte{10, byte(224 + rand.IntN(31)), byte(rand.IntN(256)), 1})
		net24 := netip.PrefixFrom(own, 24)
		free := true
		for _, u := range used {
			if p, err := netip.ParsePrefix(u.String()); err == nil && p.Overlaps(net24) {
				free = false
			}
		}
		if free {
			return own, nil
		}
	}
	return netip.Addr{}, errors.New("no network below 10.224.0.0 is free")
}
