package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// boxConfig is what an operator may write into the plugin block.
type boxConfig struct {
	Server  string       `json:"server" required:"true" doc:"Address of the server, such as \"tcp://10.0.0.5:7777\"."`
	Token   string       `json:"token" sensitive:"true" doc:"What the server asks for."`
	Timeout sdk.Duration `json:"timeout" default:"30s" doc:"How long one call to the server may take."`
}

// boxWorker is what an operator may write into a worker block.
type boxWorker struct {
	Memory sdk.Bytes `json:"memory" doc:"Memory of all its containers together."`
}

// boxes is the runtime: it needs Workers and Worker, which are left out here.
type boxes struct {
	sdk.Runtime
	config  boxConfig
	workers map[string]boxWorker
}

// openBoxes reads the settings and dials nothing.
func openBoxes(ctx context.Context, cfg sdk.Config) (sdk.Runtime, error) {
	b := &boxes{workers: make(map[string]boxWorker)}
	if err := cfg.Plugin.Decode(&b.config); err != nil {
		return nil, err
	}
	if b.config.Timeout <= 0 {
		return nil, sdk.NewInvalid(sdk.ReasonConfig, "plugin %q: \"timeout\" must be more than 0", cfg.Plugin.Name)
	}
	for _, block := range cfg.Workers {
		var w boxWorker
		if err := block.Decode(&w); err != nil {
			return nil, err
		}
		b.workers[block.Name] = w
	}
	cfg.Log.Info("open", "workers", len(b.workers))
	return b, nil
}

// A plugin is a program whose main has one line: rpc.Serve(plugin), from package sdk/rpc. The host starts it, asks for its schemas,
// checks the operator's file with them, and calls Open with what is written there.
func ExamplePlugin() {
	plugin := sdk.Plugin{
		Name:    "boxes",
		Version: "0.1.0",
		Config:  boxConfig{},
		Worker:  boxWorker{},
		Open:    openBoxes,
	}
	// In a plugin's main, this is all that is left to do:
	//
	//	rpc.Serve(plugin)
	//
	// A test can do what the host does.
	rt, err := plugin.Open(context.Background(), sdk.Config{
		Plugin:  sdk.Block{Name: "boxes", Values: json.RawMessage(`{"server": "tcp://10.0.0.5:7777", "timeout": "30s"}`)},
		Workers: []sdk.Block{{Name: "linux-1", Values: json.RawMessage(`{"memory": "4GiB"}`)}},
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	b := rt.(*boxes)
	fmt.Println(b.config.Server, time.Duration(b.config.Timeout), b.workers["linux-1"].Memory)
	// Output: tcp://10.0.0.5:7777 30s 4294967296
}

// Errors about settings name the setting, never its value.
func ExampleBlock_Decode() {
	block := sdk.Block{Name: "boxes", Values: json.RawMessage(`{"server": "tcp://10.0.0.5:7777", "timeout": "soon"}`)}
	config := boxConfig{Timeout: sdk.Duration(time.Minute)} // kept where nothing is set
	err := block.Decode(&config)
	fmt.Println(err)
	fmt.Println(errors.Is(err, sdk.Invalid), errors.Is(err, sdk.ReasonConfig))
	// Output:
	// settings of "boxes": "timeout" must be a duration such as "1m30s", not this string
	// true true
}

// The class says what to do, the reason why; both are asked for with errors.Is, here and across the wire.
func ExampleError() {
	err := fmt.Errorf("seal the output: %w",
		sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, "v1", "volume %q is mounted writable by a container with processes", "v1"))

	fmt.Println(err)
	fmt.Println(errors.Is(err, sdk.FailedPrecondition), errors.Is(err, sdk.ReasonInUse), errors.Is(err, sdk.NotFound))
	fmt.Println(sdk.ClassOf(err))

	var e *sdk.Error
	if errors.As(err, &e) {
		fmt.Println(e.Kind, e.ID)
	}
	// Output:
	// seal the output: volume "v1" is mounted writable by a container with processes
	// true true false
	// failed precondition
	// volume v1
}

// What is gone need not be destroyed; what else is missing is another matter.
func ExampleIsNotFound() {
	err := sdk.NewNotFound(sdk.KindContainer, "c1")
	fmt.Println(sdk.IsNotFound(err, sdk.KindContainer), sdk.IsNotFound(err, sdk.KindProcess))
	// Output: true false
}

func ExampleClassOf() {
	for _, err := range []error{
		sdk.NewExhausted(sdk.ReasonStorage, "the store is full"),
		os.ErrPermission, // what a plugin did not classify is its defect
		fmt.Errorf("status: %w", context.DeadlineExceeded),
		nil,
	} {
		fmt.Printf("%q\n", sdk.ClassOf(err))
	}
	// Output:
	// "exhausted"
	// "internal"
	// ""
	// ""
}

func ExampleSchemaOf() {
	schema, err := sdk.SchemaOf(boxConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range schema.Fields {
		fmt.Printf("%s %s required=%v default=%q sensitive=%v\n", f.Name, f.Type, f.Required, f.Default, f.Sensitive)
	}
	// Output:
	// server string required=true default="" sensitive=false
	// token string required=false default="" sensitive=true
	// timeout duration required=false default="30s" sensitive=false
}

func ExampleParseBytes() {
	n, err := sdk.ParseBytes("64MiB")
	fmt.Println(n, err)
	_, err = sdk.ParseBytes("64MB")
	fmt.Println(err)
	// Output:
	// 67108864 <nil>
	// "64MB" is not a size: write a whole number with B, KiB, MiB, GiB or TiB, such as "64MiB"
}
