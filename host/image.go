package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/sdk"
)

// imageDefaults is what an image says of processes in it: the metadata.json beside its rootfs/.
type imageDefaults struct {
	Env        []string `json:"env"`
	User       string   `json:"user"`
	Entrypoint []string `json:"entrypoint"`
	Cmd        []string `json:"cmd"`
}

// command is what runs where a process names no path.
func (d imageDefaults) command(args []string) (path string, rest []string, err error) {
	if len(args) == 0 {
		args = d.Cmd
	}
	all := slices.Concat(d.Entrypoint, args)
	if len(all) == 0 || len(d.Entrypoint)+len(d.Cmd) == 0 {
		return "", nil, sdk.NewInvalid(sdk.ReasonSpec, "there is no path to run, and the image names neither an entrypoint nor a cmd: give one")
	}
	return all[0], all[1:], nil
}

const (
	metadataFile     = "metadata.json"
	maxMetadataBytes = 1 << 20
)

// readImage reads the defaults of the container's image volume. An image without a metadata.json has none.
func (c *Container) readImage(ctx context.Context) (image imageDefaults, err error) {
	if c.record.Spec.Image.Volume == "" {
		return image, nil
	}
	text, err := c.readImageFile(ctx, metadataFile, maxMetadataBytes)
	if sdk.IsNotFound(err, sdk.KindFile) {
		return image, nil
	}
	if err != nil {
		return image, err
	}
	if err := json.Unmarshal(text, &image); err != nil {
		return image, sdk.NewInvalid(sdk.ReasonImage, "image of %s: %s: %v", c.owner, metadataFile, err)
	}
	return image, nil
}

// imageDefaults are those of the container's image, read now where that was not done yet. Of a container that is over there are none.
func (c *Container) imageDefaults(ctx context.Context) (imageDefaults, error) {
	if c.image != nil {
		return *c.image, nil
	}
	if c.state != lifecycle.ContainerReady {
		return imageDefaults{}, nil
	}
	return c.readImage(ctx)
}

// readImageFile reads a file of at most that many bytes out of the container's image volume.
func (c *Container) readImageFile(ctx context.Context, name string, most int) ([]byte, error) {
	buf := limitedBuffer{name: name, most: most}
	err := c.worker.call(ctx, "read the image's "+name, func(ctx context.Context, conn sdk.Worker) error {
		buf.Reset()
		s, err := conn.Status(ctx)
		if err != nil {
			return err
		}
		return sdk.ReadFile(ctx, conn, s, c.record.Spec.Image.Volume, name, &buf)
	})
	return buf.Bytes(), err
}

// limitedBuffer takes no more than a file may have.
type limitedBuffer struct {
	bytes.Buffer
	name string
	most int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, fmt.Errorf("%s is larger than %d bytes", b.name, b.most)
	}
	return b.Buffer.Write(p)
}
