package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"

	userfiles "github.com/moby/sys/user"

	"github.com/slipway-run/slipway/sdk"
)

// ownership is who the roots of a container's volumes belong to, as numbers inside the container. The zero value is root.
type ownership struct{ uid, gid int64 }

// volumeOwner finds out who the container's volumes are to belong to: the user of its processes, who could not write its outputs else. A user whose
// numbers nobody can look up from here, because the runtime has the image or the image does not know it, owns nothing: starting a process as that
// user tells whether there is one. The container's image is there already.
func (c *Container) volumeOwner(ctx context.Context, user string) (ownership, error) {
	user = cmp.Or(user, c.image.User)
	if user == "" || user == "0" || user == "root" {
		return ownership{}, nil
	}
	passwd, err := c.userFile(ctx, "rootfs/etc/passwd")
	if err != nil {
		return ownership{}, err
	}
	group, err := c.userFile(ctx, "rootfs/etc/group")
	if err != nil {
		return ownership{}, err
	}
	return findOwner(user, bytes.NewReader(passwd), bytes.NewReader(group)), nil
}

// findOwner looks a user up as starting a process does: a name, a number, or two of either.
func findOwner(user string, passwd, group io.Reader) ownership {
	u, err := userfiles.GetExecUser(user, &userfiles.ExecUser{}, passwd, group)
	if err != nil { // numbers need no files, and not even readable ones
		u, err = userfiles.GetExecUser(user, &userfiles.ExecUser{}, nil, nil)
	}
	if err != nil {
		return ownership{}
	}
	return ownership{int64(u.Uid), int64(u.Gid)}
}

// maxUserFile bounds what is read of an image's users.
const maxUserFile = 16 << 20

// userFile reads one of the image's files. One that is not there, or is no file, is empty.
func (c *Container) userFile(ctx context.Context, name string) ([]byte, error) {
	if c.record.Spec.Image.Volume == "" {
		return nil, nil
	}
	text, err := c.readImageFile(ctx, name, maxUserFile)
	if sdk.IsNotFound(err, sdk.KindFile) || errors.Is(err, sdk.ReasonPath) {
		return nil, nil
	}
	return text, err
}
