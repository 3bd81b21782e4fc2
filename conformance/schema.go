package conformance

import _ "embed"

//go:embed report.schema.json
var reportSchema string

// ReportSchema is the JSON Schema of what [WriteJSON] writes.
func ReportSchema() string { return reportSchema }
