package rpc

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// pair is one value of an enumeration on both sides. The first pair of a table is what an unknown value becomes.
type pair[A, B comparable] struct {
	sdk A
	pb  B
}

func toPB[A, B comparable](table []pair[A, B], v A) B {
	for _, p := range table {
		if p.sdk == v {
			return p.pb
		}
	}
	return table[0].pb
}

func fromPB[A, B comparable](table []pair[A, B], v B) A {
	for _, p := range table {
		if p.pb == v {
			return p.sdk
		}
	}
	return table[0].sdk
}

// Zero times stay zero: an absent timestamp. So does one that is none, beyond the year 9999: times are for display (rule 12), and no reason to refuse an answer.

func timeToPB(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFromPB(t *timestamppb.Timestamp) time.Time {
	if t.CheckValid() != nil { // nil, too
		return time.Time{}
	}
	return t.AsTime()
}

func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOfNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func byteStrings(in []string) [][]byte {
	if in == nil {
		return nil
	}
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

func stringsOf(in [][]byte) []string {
	if in == nil {
		return nil
	}
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

func texts[S ~string](in []S) []string {
	if in == nil {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = text(string(s))
	}
	return out
}

func featuresOf(in []string) []sdk.Feature {
	if in == nil {
		return nil
	}
	out := make([]sdk.Feature, len(in))
	for i, s := range in {
		out[i] = sdk.Feature(s)
	}
	return out
}

// textMap also copies, so that what a plugin keeps is never read after its call.
func textMap(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[text(k)] = text(v)
	}
	return out
}

func resourcesToPB(r sdk.Resources) *pb.Resources {
	if r == (sdk.Resources{}) {
		return nil
	}
	return &pb.Resources{CpuMillis: r.CPUMillis, MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes, Pids: r.PIDs,
		Containers: r.Containers, Volumes: r.Volumes}
}

func resourcesFromPB(r *pb.Resources) sdk.Resources {
	return sdk.Resources{CPUMillis: r.GetCpuMillis(), MemoryBytes: r.GetMemoryBytes(), DiskBytes: r.GetDiskBytes(),
		PIDs: r.GetPids(), Containers: r.GetContainers(), Volumes: r.GetVolumes()}
}

func filterToPB(f sdk.Filter) *pb.Filter { return &pb.Filter{Id: f.ID, Labels: f.Labels} }

func filterFromPB(f *pb.Filter) sdk.Filter { return sdk.Filter{ID: f.GetId(), Labels: f.GetLabels()} }

func progressToPB(p sdk.Progress) *pb.Progress {
	return &pb.Progress{Phase: text(p.Phase), Message: text(p.Message), Done: p.Done, Total: p.Total, Unit: text(p.Unit)}
}

func progressFromPB(p *pb.Progress) sdk.Progress {
	return sdk.Progress{Phase: p.GetPhase(), Message: p.GetMessage(), Done: p.GetDone(), Total: p.GetTotal(), Unit: p.GetUnit()}
}

func ticketToPB(t sdk.PeerTicket) *pb.PeerTicket {
	return &pb.PeerTicket{Protocol: text(t.Protocol), Zone: text(t.Zone), Data: t.Data}
}

func ticketFromPB(t *pb.PeerTicket) sdk.PeerTicket {
	return sdk.PeerTicket{Protocol: t.GetProtocol(), Zone: t.GetZone(), Data: t.GetData()}
}

func sizeToPB(t sdk.TTY) *pb.TerminalSize {
	return &pb.TerminalSize{Columns: uint32(t.Columns), Rows: uint32(t.Rows)}
}

// sizeFromPB is Invalid where the size does not fit.
func sizeFromPB(t *pb.TerminalSize) (sdk.TTY, error) {
	if t.GetColumns() > math.MaxUint16 || t.GetRows() > math.MaxUint16 {
		return sdk.TTY{}, sdk.NewInvalid(sdk.ReasonSpec, "a terminal of %d by %d is too large; at most %d by %d", t.GetColumns(),
			t.GetRows(), math.MaxUint16, math.MaxUint16)
	}
	return sdk.TTY{Columns: uint16(t.GetColumns()), Rows: uint16(t.GetRows())}, nil
}
