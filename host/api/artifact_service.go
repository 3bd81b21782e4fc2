package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/internal/filemode"
	"github.com/slipway-run/slipway/sdk"
)

type artifactService struct{ *Server }

// UploadArtifact makes an artifact of what a client sends.
func (s artifactService) UploadArtifact(ctx context.Context, from *connect.ClientStream[pb.UploadArtifactRequest]) (*connect.Response[pb.UploadArtifactResponse], error) {
	if err := s.upload(ctx, from); err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.UploadArtifactResponse{}), nil
}

func (s *Server) upload(ctx context.Context, from *connect.ClientStream[pb.UploadArtifactRequest]) error {
	next := func() (*pb.UploadArtifactRequest, error) {
		if from.Receive() {
			return from.Msg(), nil
		}
		if err := from.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	first, err := next()
	if errors.Is(err, io.EOF) {
		return invalid("an upload has no message: the first must have the artifact's name")
	}
	if err != nil {
		return err
	}
	u := host.Upload{Name: first.GetName(), TTL: first.GetTtl().AsDuration(), Encoding: first.GetEncoding(), Source: first.GetSource()}
	msg := first
	body := &pieces{summing: newSumming(), next: func() ([]byte, *pb.Sum, error) {
		if msg == nil {
			if msg, err = next(); err != nil {
				return nil, nil, err
			}
		}
		data, sum := msg.GetData(), msg.GetSum()
		msg = nil
		return data, sum, nil
	}}
	return s.take(ctx, u, body)
}

// take makes an artifact of an archive, the body of a request. A read of it that is under way ends with the upload: so one whose client has stopped
// takes no room for ever, and holds up no server's end.
func (s *Server) take(ctx context.Context, u host.Upload, body io.Reader) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := s.while(ctx)
	defer cancel()
	_, err = s.h.UploadFrom(ctx, u, func(ctx context.Context, w io.Writer) error {
		defer interruptAtEnd(ctx)()
		_, err := io.Copy(w, body)
		return cmp.Or(ctx.Err(), err)
	})
	return because(ctx, err)
}

// broughtFor is how the names of artifacts begin that are brought for a run alone. Once it has begun they have other names.
func broughtFor(run string) string { return "upload/" + run + "/" }

// dropBrought removes what was brought for a run that has not taken it.
func (s *Server) dropBrought(ctx context.Context, run string, inputs map[string]*host.Artifact) {
	for _, a := range inputs {
		now, err := s.h.Artifact(ctx, a.Name)
		if err == nil && now.ID == a.ID {
			err = s.h.RemoveArtifact(ctx, a)
		}
		if err != nil && !errors.Is(err, sdk.NotFound) { // it goes when its time is over
			s.log.Warn("what was brought for a run is not removed yet", "run", run, "artifact", a.Name, "error", err)
		}
	}
}

// DownloadArtifact sends an artifact.
func (s artifactService) DownloadArtifact(ctx context.Context, c *connect.Request[pb.DownloadArtifactRequest], to *connect.ServerStream[pb.DownloadArtifactResponse]) error {
	a, err := s.artifact(ctx, c.Msg.GetName())
	if err != nil {
		return answer(err)
	}
	return answer(s.give(ctx, to, func(ctx context.Context, w io.Writer) error { return s.h.Download(ctx, a, w) }))
}

// ReadFile sends one file of an artifact.
func (s artifactService) ReadFile(ctx context.Context, c *connect.Request[pb.ReadFileRequest], to *connect.ServerStream[pb.DownloadArtifactResponse]) error {
	a, err := s.artifact(ctx, c.Msg.GetName())
	if err != nil {
		return answer(err)
	}
	return answer(s.give(ctx, to, func(ctx context.Context, w io.Writer) error { return s.h.ReadFile(ctx, a, c.Msg.GetPath(), w) }))
}

// ListFiles lists a directory of an artifact.
func (s artifactService) ListFiles(ctx context.Context, c *connect.Request[pb.ListFilesRequest]) (*connect.Response[pb.ListFilesResponse], error) {
	a, err := s.artifact(ctx, c.Msg.GetName())
	if err != nil {
		return nil, answer(err)
	}
	defer s.watching()()
	ctx, cancel := s.while(ctx)
	defer cancel()
	files, err := s.h.ListFiles(ctx, a, c.Msg.GetPath())
	if err != nil {
		return nil, answer(because(ctx, err))
	}
	out := &pb.ListFilesResponse{}
	for _, f := range files {
		out.Files = append(out.Files, pbFile(f))
	}
	return connect.NewResponse(out), nil
}

// pbFile tells of a file. Its name is bytes, which a message in UTF-8 cannot have as they are.
func pbFile(f sdk.FileInfo) *pb.File {
	out := &pb.File{Name: readable(f.Name), Mode: filemode.ToPOSIX(f.Mode), Bytes: f.Size, ModifiedAt: stamp(f.ModTime), LinkTarget: readable(f.LinkTarget), Uid: f.UID, Gid: f.GID}
	if out.Name != f.Name {
		out.RawName = []byte(f.Name)
	}
	return out
}

func readable(name string) string { return strings.ToValidUTF8(name, "\ufffd") }

func fromFile(f *pb.File) sdk.FileInfo {
	name := cmp.Or(string(f.GetRawName()), f.GetName())
	return sdk.FileInfo{Name: name, Mode: filemode.FromPOSIX(f.GetMode()), Size: f.GetBytes(), ModTime: fromStamp(f.GetModifiedAt()), LinkTarget: f.GetLinkTarget(), UID: f.GetUid(), GID: f.GetGid()}
}

func (s *Server) give(ctx context.Context, to *connect.ServerStream[pb.DownloadArtifactResponse], read func(context.Context, io.Writer) error) error {
	defer s.watching()()
	ctx, cancel := s.while(ctx)
	defer cancel()
	out := chunks{newSumming(), func(b []byte) error { return to.Send(&pb.DownloadArtifactResponse{Data: b}) }}
	if err := read(ctx, out); err != nil {
		return because(ctx, err)
	}
	return to.Send(&pb.DownloadArtifactResponse{Sum: out.sum()})
}

// ListArtifacts lists artifacts.
func (s artifactService) ListArtifacts(ctx context.Context, c *connect.Request[pb.ListArtifactsRequest]) (*connect.Response[pb.ListArtifactsResponse], error) {
	list, err := s.h.Artifacts(ctx, host.ArtifactFilter{Prefix: c.Msg.GetPrefix()})
	if err != nil {
		return nil, answer(err)
	}
	out := &pb.ListArtifactsResponse{}
	for _, r := range list {
		out.Artifacts = append(out.Artifacts, pbArtifact(r))
	}
	return connect.NewResponse(out), nil
}

func pbArtifact(r host.ArtifactReport) *pb.Artifact {
	return &pb.Artifact{Id: r.ID, Name: r.Name, Owner: r.Owner, Team: r.Team, Key: r.Key, Source: r.Source, Bytes: r.Bytes, MadeAt: stamp(r.Made), UsedAt: stamp(r.Used),
		ExpiresAt: stamp(r.Expires), InvalidAt: stamp(r.Invalid), Places: r.Places}
}

func fromArtifact(a *pb.Artifact) host.ArtifactReport {
	return host.ArtifactReport{Artifact: host.Artifact{ID: a.GetId(), Name: a.GetName()}, Owner: a.GetOwner(), Team: a.GetTeam(), Key: a.GetKey(), Source: a.GetSource(),
		Bytes: a.GetBytes(), Made: fromStamp(a.GetMadeAt()), Used: fromStamp(a.GetUsedAt()), Expires: fromStamp(a.GetExpiresAt()), Invalid: fromStamp(a.GetInvalidAt()), Places: a.GetPlaces()}
}

// RemoveArtifact removes an artifact.
func (s artifactService) RemoveArtifact(ctx context.Context, c *connect.Request[pb.RemoveArtifactRequest]) (*connect.Response[pb.RemoveArtifactResponse], error) {
	a, err := s.artifact(ctx, c.Msg.GetName())
	if err == nil {
		err = s.h.RemoveArtifact(ctx, a)
	}
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.RemoveArtifactResponse{}), nil
}
