package rpc

import (
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

func fieldTypes() []pair[sdk.FieldType, pb.FieldType] {
	return []pair[sdk.FieldType, pb.FieldType]{
		{"", pb.FieldType_FIELD_TYPE_UNSPECIFIED},
		{sdk.TypeString, pb.FieldType_FIELD_TYPE_STRING},
		{sdk.TypeBool, pb.FieldType_FIELD_TYPE_BOOL},
		{sdk.TypeInt, pb.FieldType_FIELD_TYPE_INT},
		{sdk.TypeFloat, pb.FieldType_FIELD_TYPE_FLOAT},
		{sdk.TypeDuration, pb.FieldType_FIELD_TYPE_DURATION},
		{sdk.TypeBytes, pb.FieldType_FIELD_TYPE_BYTES},
		{sdk.TypeStrings, pb.FieldType_FIELD_TYPE_STRINGS},
		{sdk.TypeMap, pb.FieldType_FIELD_TYPE_MAP},
		{sdk.TypeBlock, pb.FieldType_FIELD_TYPE_BLOCK},
		{sdk.TypeBlocks, pb.FieldType_FIELD_TYPE_BLOCKS},
	}
}

func fieldsToPB(in []sdk.Field) []*pb.Field {
	out := make([]*pb.Field, 0, len(in))
	for _, f := range in {
		out = append(out, &pb.Field{
			Name: text(f.Name), Type: toPB(fieldTypes(), f.Type), Required: f.Required, Default: text(f.Default),
			OneOf: texts(f.OneOf), Sensitive: f.Sensitive, Doc: text(f.Doc), Block: fieldsToPB(f.Block),
		})
	}
	return out
}

func fieldsFromPB(in []*pb.Field) []sdk.Field {
	if len(in) == 0 {
		return nil
	}
	out := make([]sdk.Field, 0, len(in))
	for _, f := range in {
		out = append(out, sdk.Field{
			Name: f.Name, Type: fromPB(fieldTypes(), f.Type), Required: f.Required, Default: f.Default,
			OneOf: f.OneOf, Sensitive: f.Sensitive, Doc: f.Doc, Block: fieldsFromPB(f.Block),
		})
	}
	return out
}

func infoToPB(i sdk.PluginInfo) *pb.InfoResponse {
	return &pb.InfoResponse{
		Name: text(i.Name), Version: text(i.Version), Sdk: text(i.SDK),
		PluginSchema: &pb.Schema{Fields: fieldsToPB(i.PluginSchema.Fields)},
		WorkerSchema: &pb.Schema{Fields: fieldsToPB(i.WorkerSchema.Fields)},
	}
}

func infoFromPB(i *pb.InfoResponse) sdk.PluginInfo {
	return sdk.PluginInfo{
		Name: i.Name, Version: i.Version, SDK: i.Sdk,
		PluginSchema: sdk.Schema{Fields: fieldsFromPB(i.PluginSchema.GetFields())},
		WorkerSchema: sdk.Schema{Fields: fieldsFromPB(i.WorkerSchema.GetFields())},
	}
}

func blockToPB(b sdk.Block) *pb.Block { return &pb.Block{Name: b.Name, Values: b.Values} }

func blockFromPB(b *pb.Block) sdk.Block { return sdk.Block{Name: b.GetName(), Values: b.GetValues()} }

func eventKinds() []pair[sdk.WorkerEventKind, pb.WorkerEventKind] {
	return []pair[sdk.WorkerEventKind, pb.WorkerEventKind]{
		{0, pb.WorkerEventKind_WORKER_EVENT_KIND_UNSPECIFIED},
		{sdk.WorkerSnapshot, pb.WorkerEventKind_WORKER_EVENT_KIND_SNAPSHOT},
		{sdk.WorkerUpsert, pb.WorkerEventKind_WORKER_EVENT_KIND_UPSERT},
		{sdk.WorkerRemove, pb.WorkerEventKind_WORKER_EVENT_KIND_REMOVE},
	}
}

func workerToPB(w sdk.WorkerInfo) *pb.WorkerInfo {
	return &pb.WorkerInfo{Name: text(w.Name), Platform: text(w.Platform), Team: text(w.Team), Tags: texts(w.Tags),
		Attributes: textMap(w.Attributes), Ephemeral: w.Ephemeral}
}

func workerFromPB(w *pb.WorkerInfo) sdk.WorkerInfo {
	return sdk.WorkerInfo{Name: w.Name, Platform: w.Platform, Team: w.Team, Tags: w.Tags, Attributes: w.Attributes,
		Ephemeral: w.Ephemeral}
}
