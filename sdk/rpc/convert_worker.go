package rpc

import (
	"github.com/slipway-run/slipway/internal/filemode"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

func healths() []pair[sdk.Health, pb.Health] {
	return []pair[sdk.Health, pb.Health]{
		{sdk.HealthUnknown, pb.Health_HEALTH_UNSPECIFIED},
		{sdk.Healthy, pb.Health_HEALTH_HEALTHY},
		{sdk.Degraded, pb.Health_HEALTH_DEGRADED},
		{sdk.Away, pb.Health_HEALTH_AWAY},
	}
}

func statusToPB(s sdk.Status) *pb.StatusResponse {
	return &pb.StatusResponse{
		Health: toPB(healths(), s.Health), Reason: text(s.Reason),
		ContainerIncarnation: text(s.ContainerIncarnation), VolumeIncarnation: text(s.VolumeIncarnation),
		Features: texts(s.Features), Capacity: resourcesToPB(s.Capacity), Used: resourcesToPB(s.Used),
		Encodings: texts(s.Encodings), Zone: text(s.Zone), ContainersAway: s.ContainersAway,
	}
}

func statusFromPB(s *pb.StatusResponse) sdk.Status {
	return sdk.Status{
		Health: fromPB(healths(), s.Health), Reason: shorten(s.Reason),
		ContainerIncarnation: s.ContainerIncarnation, VolumeIncarnation: s.VolumeIncarnation,
		Features: featuresOf(s.Features), Capacity: resourcesFromPB(s.Capacity), Used: resourcesFromPB(s.Used),
		Encodings: s.Encodings, Zone: s.Zone, ContainersAway: s.ContainersAway,
	}
}

func volumeSpecToPB(worker string, s sdk.VolumeSpec) *pb.CreateVolumeRequest {
	return &pb.CreateVolumeRequest{
		Worker: worker, Id: string(s.ID), Token: string(s.Token), Labels: s.Labels, CloneOf: string(s.Clone),
		ImportPath: []byte(s.Import), Uid: s.UID, Gid: s.GID, Privileged: s.Privileged,
	}
}

func volumeSpecFromPB(r *pb.CreateVolumeRequest) sdk.VolumeSpec {
	return sdk.VolumeSpec{
		ID: sdk.VolumeID(r.Id), Token: sdk.Token(r.Token), Labels: r.Labels, Clone: sdk.VolumeID(r.CloneOf),
		Import: string(r.ImportPath), UID: r.Uid, GID: r.Gid, Privileged: r.Privileged,
	}
}

func volumeStates() []pair[sdk.VolumeState, pb.VolumeState] {
	return []pair[sdk.VolumeState, pb.VolumeState]{
		{0, pb.VolumeState_VOLUME_STATE_UNSPECIFIED},
		{sdk.VolumeCreating, pb.VolumeState_VOLUME_STATE_CREATING},
		{sdk.VolumeOpen, pb.VolumeState_VOLUME_STATE_OPEN},
		{sdk.VolumeSealed, pb.VolumeState_VOLUME_STATE_SEALED},
	}
}

func volumeToPB(v sdk.VolumeInfo) *pb.VolumeInfo {
	return &pb.VolumeInfo{Id: text(string(v.ID)), Token: text(string(v.Token)), Labels: textMap(v.Labels),
		State: toPB(volumeStates(), v.State), Parent: text(string(v.Parent)), Bytes: v.Bytes}
}

func volumeFromPB(v *pb.VolumeInfo) sdk.VolumeInfo {
	return sdk.VolumeInfo{ID: sdk.VolumeID(v.Id), Token: sdk.Token(v.Token), Labels: v.Labels,
		State: fromPB(volumeStates(), v.State), Parent: sdk.VolumeID(v.Parent), Bytes: v.Bytes}
}

func containerSpecToPB(worker string, s sdk.ContainerSpec) *pb.CreateContainerRequest {
	r := &pb.CreateContainerRequest{
		Worker: worker, Id: string(s.ID), Token: string(s.Token), Labels: s.Labels, Dir: []byte(s.Dir),
		Limits: resourcesToPB(s.Limits), Privileged: s.Privileged, Hermetic: s.Hermetic,
	}
	switch {
	case s.Image.Volume != "":
		r.Image = &pb.CreateContainerRequest_ImageVolume{ImageVolume: string(s.Image.Volume)}
	case s.Image.Ref != "":
		r.Image = &pb.CreateContainerRequest_ImageRef{ImageRef: s.Image.Ref}
	}
	for _, m := range s.Mounts {
		r.Mounts = append(r.Mounts, &pb.Mount{Volume: string(m.Volume), Path: []byte(m.Path), ReadOnly: m.ReadOnly})
	}
	return r
}

func containerSpecFromPB(r *pb.CreateContainerRequest) sdk.ContainerSpec {
	s := sdk.ContainerSpec{
		ID: sdk.ContainerID(r.Id), Token: sdk.Token(r.Token), Labels: r.Labels,
		Image: sdk.Image{Volume: sdk.VolumeID(r.GetImageVolume()), Ref: r.GetImageRef()},
		Dir:   string(r.Dir), Limits: resourcesFromPB(r.Limits), Privileged: r.Privileged, Hermetic: r.Hermetic,
	}
	for _, m := range r.Mounts {
		s.Mounts = append(s.Mounts, sdk.Mount{Volume: sdk.VolumeID(m.Volume), Path: string(m.Path), ReadOnly: m.ReadOnly})
	}
	return s
}

func containerStates() []pair[sdk.ContainerState, pb.ContainerState] {
	return []pair[sdk.ContainerState, pb.ContainerState]{
		{0, pb.ContainerState_CONTAINER_STATE_UNSPECIFIED},
		{sdk.ContainerCreating, pb.ContainerState_CONTAINER_STATE_CREATING},
		{sdk.ContainerReady, pb.ContainerState_CONTAINER_STATE_READY},
		{sdk.ContainerGone, pb.ContainerState_CONTAINER_STATE_GONE},
	}
}

func containerToPB(c sdk.ContainerInfo) *pb.ContainerInfo {
	return &pb.ContainerInfo{Id: text(string(c.ID)), Token: text(string(c.Token)), Labels: textMap(c.Labels),
		State: toPB(containerStates(), c.State), Reason: text(c.Reason)}
}

func containerFromPB(c *pb.ContainerInfo) sdk.ContainerInfo {
	return sdk.ContainerInfo{ID: sdk.ContainerID(c.Id), Token: sdk.Token(c.Token), Labels: c.Labels,
		State: fromPB(containerStates(), c.State), Reason: c.Reason}
}

func fileToPB(f sdk.FileInfo) *pb.FileInfo {
	return &pb.FileInfo{Name: []byte(f.Name), Mode: filemode.ToPOSIX(f.Mode), Size: f.Size, ModTime: timeToPB(f.ModTime),
		LinkTarget: []byte(f.LinkTarget), Uid: f.UID, Gid: f.GID}
}

func fileFromPB(f *pb.FileInfo) sdk.FileInfo {
	return sdk.FileInfo{Name: string(f.GetName()), Mode: filemode.FromPOSIX(f.GetMode()), Size: f.GetSize(),
		ModTime: timeFromPB(f.GetModTime()), LinkTarget: string(f.GetLinkTarget()), UID: f.GetUid(), GID: f.GetGid()}
}
