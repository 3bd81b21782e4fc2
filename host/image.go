package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/slipway-run/slipway/sdk"
)

// imageDefaults is what an image says of processes in it: the metadata.json beside its rootfs/.
type imageDefaults struct {
	Env  []string `json:"env"`
	User string   `json:"user"`
}

const (
	metadataFile     = "metadata.json"
	maxMetadataBytes = 1 << 20
)

// readImage reads the defaults of the container's image volume. An image without a metadata.json has none.
func (c *Container) readImage(ctx context.Context) error {
	id := c.record.Spec.Image.Volume
	if id == "" {
		return nil
	}
	var buf limitedBuffer
	err := c.worker.call(ctx, "read the image's "+metadataFile, func(ctx context.Context, conn sdk.Worker) error {
		buf.Reset()
		s, err := conn.Status(ctx)
		if err != nil {
			return err
		}
		return sdk.ReadFile(ctx, conn, s, id, metadataFile, &buf)
	})
	if sdk.IsNotFound(err, sdk.KindFile) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(buf.Bytes(), &c.image); err != nil {
		return sdk.NewInvalid(sdk.ReasonImage, "image of %s: %s: %v", c.owner, metadataFile, err)
	}
	return nil
}

// limitedBuffer takes at most maxMetadataBytes.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxMetadataBytes {
		return 0, fmt.Errorf("%s is larger than %d bytes", metadataFile, maxMetadataBytes)
	}
	return b.Buffer.Write(p)
}
