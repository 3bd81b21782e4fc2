package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// Client asks a daemon. Its methods may be called from many goroutines. What they fail with is the daemon's *Error, a *GoneError where it cannot be
// reached, or the context's.
type Client struct {
	address   string
	transport *http.Transport

	host       pb.HostServiceClient
	runs       pb.RunServiceClient
	containers pb.ContainerServiceClient
	processes  pb.ProcessServiceClient
	artifacts  pb.ArtifactServiceClient
}

// NewClient makes a client of the daemon at an address, such as unix:///run/slipway.sock. Nothing is dialled before the first call.
func NewClient(address string) (*Client, error) {
	path, err := socketPath(address)
	if err != nil {
		return nil, err
	}
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	c := &Client{address: address, transport: &http.Transport{Protocols: &only, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	hc := c.http()
	c.host = pb.NewHostServiceClient(hc, base)
	c.runs = pb.NewRunServiceClient(hc, base)
	c.containers = pb.NewContainerServiceClient(hc, base)
	c.processes = pb.NewProcessServiceClient(hc, base)
	c.artifacts = pb.NewArtifactServiceClient(hc, base)
	return c, nil
}

// base is where calls go to: the name is nobody's.
const base = "http://slipway"

func (c *Client) http() *http.Client { return &http.Client{Transport: c.transport} }

// Close gives the connections back that nothing uses.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Address is where the daemon is.
func (c *Client) Address() string { return c.address }

func (c *Client) err(ctx context.Context, err error) error { return answered(ctx, c.address, err) }

// Info is what a daemon says of itself.
type Info struct {
	Version, Installation, StateDir string
	PID                             int
	Draining                        bool
	Changing                        []string // what a reload or the restart of a plugin waits for, where one is under way
}

// Info asks who answers.
func (c *Client) Info(ctx context.Context) (Info, error) {
	r, err := c.host.GetHost(ctx, connect.NewRequest(&pb.GetHostRequest{}))
	if err != nil {
		return Info{}, c.err(ctx, err)
	}
	return Info{Version: r.Msg.GetVersion(), Installation: r.Msg.GetInstallation(), StateDir: r.Msg.GetStateDir(), PID: int(r.Msg.GetPid()),
		Draining: r.Msg.GetDraining(), Changing: r.Msg.GetChanging()}, nil
}

// Plugins reports on the plugins, and has the daemon wait so long for those that it has just started. Their errors have no plugin of their own: their messages name it.
func (c *Client) Plugins(ctx context.Context, patience time.Duration) ([]launch.Report, error) {
	r, err := c.host.ListPlugins(ctx, connect.NewRequest(&pb.ListPluginsRequest{Patience: durationpb.New(patience)}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	var out []launch.Report
	for _, p := range r.Msg.GetPlugins() {
		out = append(out, fromPlugin(p))
	}
	return out, nil
}

// Workers reports on the workers, as Plugins does.
func (c *Client) Workers(ctx context.Context, patience time.Duration) ([]host.WorkerReport, error) {
	r, err := c.host.ListWorkers(ctx, connect.NewRequest(&pb.ListWorkersRequest{Patience: durationpb.New(patience)}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	var out []host.WorkerReport
	for _, w := range r.Msg.GetWorkers() {
		out = append(out, fromWorker(w))
	}
	return out, nil
}

// Upload makes an artifact of the archive that src writes. One of that name is sdk.AlreadyExists.
func (c *Client) Upload(ctx context.Context, u host.Upload, src func(context.Context, io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // breaks off what has not come to its end
	to := c.artifacts.UploadArtifact(ctx)
	first := &pb.UploadArtifactRequest{Name: u.Name, Encoding: u.Encoding, Source: u.Source}
	if u.TTL > 0 {
		first.Ttl = durationpb.New(u.TTL)
	}
	err := to.Send(first)
	if err == nil {
		out := chunks{newSumming(), func(b []byte) error { return to.Send(&pb.UploadArtifactRequest{Data: b}) }}
		if err = src(ctx, out); err == nil {
			err = to.Send(&pb.UploadArtifactRequest{Sum: out.sum()})
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // which says that the daemon has answered already
		return c.err(ctx, err)
	}
	_, err = to.CloseAndReceive()
	return c.err(ctx, err)
}

// Download writes an artifact as a tar archive.
func (c *Client) Download(ctx context.Context, name string, w io.Writer) error {
	from, err := c.artifacts.DownloadArtifact(ctx, connect.NewRequest(&pb.DownloadArtifactRequest{Name: name}))
	if err != nil {
		return c.err(ctx, err)
	}
	return c.receive(ctx, from, w)
}

// sayable refuses a path that no message can have.
func sayable(path string) error {
	if !utf8.ValidString(path) {
		return sdk.NewInvalid(sdk.ReasonPath, "path %q is not UTF-8, and a daemon can only be asked for what is: get the whole artifact", path)
	}
	return nil
}

// ReadFile writes one file of an artifact.
func (c *Client) ReadFile(ctx context.Context, name, path string, w io.Writer) error {
	if err := sayable(path); err != nil {
		return err
	}
	from, err := c.artifacts.ReadFile(ctx, connect.NewRequest(&pb.ReadFileRequest{Name: name, Path: path}))
	if err != nil {
		return c.err(ctx, err)
	}
	return c.receive(ctx, from, w)
}

// ListFiles lists what is in a directory of an artifact, as host.Host does.
func (c *Client) ListFiles(ctx context.Context, name, path string) ([]sdk.FileInfo, error) {
	if err := sayable(path); err != nil {
		return nil, err
	}
	r, err := c.artifacts.ListFiles(ctx, connect.NewRequest(&pb.ListFilesRequest{Name: name, Path: path}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	var out []sdk.FileInfo
	for _, f := range r.Msg.GetFiles() {
		out = append(out, fromFile(f))
	}
	return out, nil
}

func (c *Client) receive(ctx context.Context, from *connect.ServerStreamForClient[pb.DownloadArtifactResponse], w io.Writer) (err error) {
	defer from.Close()
	_, err = io.Copy(w, &pieces{summing: newSumming(), next: func() ([]byte, *pb.Sum, error) {
		if !from.Receive() {
			if err := from.Err(); err != nil {
				return nil, nil, c.err(ctx, err)
			}
			return nil, nil, io.EOF
		}
		return from.Msg().GetData(), from.Msg().GetSum(), nil
	}})
	return err
}

// DownloadDir writes an artifact to a directory, as host.Host does.
func (c *Client) DownloadDir(ctx context.Context, name, target string, force bool) error {
	return c.downloadDir(ctx, name, target, force, func(string) {})
}

// downloadDir is DownloadDir that tells the directory, once it is filled, that will be in the target's place.
func (c *Client) downloadDir(ctx context.Context, name, target string, force bool, filled func(dir string)) error {
	return stream.ReplaceDir(ctx, target, force, func(ctx context.Context, dir string) error {
		_, err := stream.Relay(ctx,
			func(ctx context.Context, w io.Writer) error { return c.Download(ctx, name, w) },
			func(ctx context.Context, r io.Reader) error { return stream.UnpackDir(ctx, r, dir) },
			stream.Options{})
		if err == nil {
			filled(dir)
		}
		return err
	})
}

// Artifacts lists the artifacts whose names begin with a prefix, in the order of their making.
func (c *Client) Artifacts(ctx context.Context, prefix string) ([]host.ArtifactReport, error) {
	r, err := c.artifacts.ListArtifacts(ctx, connect.NewRequest(&pb.ListArtifactsRequest{Prefix: prefix}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	var out []host.ArtifactReport
	for _, a := range r.Msg.GetArtifacts() {
		out = append(out, fromArtifact(a))
	}
	return out, nil
}

// InvalidateCache says that what is under a key is not what the key stands for any more, as host.Host does.
func (c *Client) InvalidateCache(ctx context.Context, team, key string) error {
	_, err := c.artifacts.InvalidateCache(ctx, connect.NewRequest(&pb.InvalidateCacheRequest{Team: team, Key: key}))
	return c.err(ctx, err)
}

// RemoveArtifact removes an artifact.
func (c *Client) RemoveArtifact(ctx context.Context, name string) error {
	_, err := c.artifacts.RemoveArtifact(ctx, connect.NewRequest(&pb.RemoveArtifactRequest{Name: name}))
	return c.err(ctx, err)
}

// Output is what a process writes, as it comes. It is for one goroutine.
type Output struct {
	c    *Client
	from *connect.ServerStreamForClient[pb.Record]
}

// Output reads what a process wrote from a position on, and what it writes. The context ends the reading, too.
func (c *Client) Output(ctx context.Context, owner, process string, from sdk.Position) (*Output, error) {
	r, err := c.processes.FollowOutput(ctx, connect.NewRequest(&pb.FollowOutputRequest{
		Process: &pb.ProcessName{Owner: owner, Name: process}, From: int64(from)}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	return &Output{c, r}, nil
}

// Next gives the next record, and io.EOF after the last.
func (o *Output) Next(ctx context.Context) (spool.Record, error) {
	if o.from.Receive() {
		return fromRecord(o.from.Msg()), nil
	}
	if err := o.from.Err(); err != nil {
		return spool.Record{}, o.c.err(ctx, err)
	}
	return spool.Record{}, io.EOF
}

// Close gives the stream back.
func (o *Output) Close() error {
	_ = o.from.Close() // what is left of it is not wanted
	return nil
}

// socketPath is the path in an address.
func socketPath(address string) (string, error) {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok || !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("address %q: want unix:///PATH", address)
	}
	return path, nil
}
