package rpc

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// sockets is gRPC's "no credentials", for a local socket is guarded by its file's mode. Being the one place where both sides
// of gRPC show their connections, it also gives them room: what the system has by default is one write of ours, and then
// sender and receiver take turns instead of working side by side.
type sockets struct {
	credentials.TransportCredentials
}

func newSockets() sockets { return sockets{insecure.NewCredentials()} }

// ClientHandshake implements [credentials.TransportCredentials].
func (s sockets) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	widen(c)
	return s.TransportCredentials.ClientHandshake(ctx, authority, c)
}

// ServerHandshake implements [credentials.TransportCredentials].
func (s sockets) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	widen(c)
	return s.TransportCredentials.ServerHandshake(c)
}

// Clone implements [credentials.TransportCredentials].
func (s sockets) Clone() credentials.TransportCredentials {
	return sockets{s.TransportCredentials.Clone()}
}

func widen(c net.Conn) {
	if c, ok := c.(*net.UnixConn); ok {
		_ = c.SetWriteBuffer(sendBuffer) // else it is slower
	}
}
