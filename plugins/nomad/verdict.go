package nomad

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// notStarted says why a task ended before its keeper answered. Most that goes wrong on a node passes: only what says that it never can be is Invalid.
func (n *node) notStarted(id sdk.ContainerID, a *api.Allocation) error {
	why := events(a)
	event := func(kind string) *api.TaskEvent {
		s := a.TaskStates[taskName]
		if s == nil {
			return nil
		}
		if i := slices.IndexFunc(s.Events, func(e *api.TaskEvent) bool { return e.Type == kind }); i >= 0 {
			return s.Events[i]
		}
		return nil
	}
	if event(api.TaskFailedValidation) != nil {
		return sdk.NewInvalid(sdk.ReasonSpec, "container %q: node %s cannot set it up: %s", id, short(n.id), why)
	}
	if e := event(api.TaskDriverFailure); e != nil {
		if n.shimLacks(e.DisplayMessage) {
			return cannot(sdk.ReasonConfig, "container %q: node %s has no shim at shim_path %s, as a task of the driver %s sees it: %s", id, short(n.id), n.pool.c.ShimPath, n.pool.c.Driver, why)
		}
		if hopeless(e.DisplayMessage) {
			return sdk.NewInvalid(sdk.ReasonImage, "container %q: node %s cannot start it: %s", id, short(n.id), why)
		}
		return sdk.NewUnavailable(nil, "container %q: node %s cannot start it now: %s", id, short(n.id), why)
	}
	if event(api.TaskArtifactDownloadFailed) != nil {
		return sdk.NewUnavailable(nil, "container %q: node %s cannot fetch what it needs (see shim_address): %s", id, short(n.id), why)
	}
	return sdk.NewUnavailable(nil, "container %q: its allocation %s is %s before it was ready: %s", id, short(a.ID), a.ClientStatus, why)
}

// hopeless tells whether a driver's words say of an image that there is none for this node, whoever asks again. There is nothing but words: Docker, registries
// and Nomad give no code. Words that are not known are of something that passes, which is tried again; the other way round a step would fail for a registry
// that is away for a minute.
func hopeless(said string) bool {
	said = strings.ToLower(said)
	return slices.ContainsFunc([]string{
		"manifest unknown", "name unknown", "no such image", "no matching manifest", "pull access denied", "requested access to the resource is denied",
		"repository does not exist", "invalid reference format", "invalid repository name", "repository name must be lowercase", "failed to parse named repo",
	}, func(words string) bool { return strings.Contains(said, words) })
}

// shimLacks tells whether a driver's words are that there is nothing at shim_path: on the node, or for exec in the chroot that it makes of chroot_env. Another
// node may have it, and only its operator can mend that.
func (n *node) shimLacks(said string) bool {
	path := n.pool.c.ShimPath
	return path != "" && strings.Contains(said, path) && slices.ContainsFunc([]string{
		"not found under path", "could not be found", "bind source path does not exist", "no such file or directory",
	}, func(words string) bool { return strings.Contains(said, words) })
}

// refused says why Nomad did not take a container's job. It answers a job that it never will take like a change of leaders that comes between; but only the
// first does it say of a dry run, too, by a leader that answers other questions.
func (n *node) refused(ctx context.Context, id sdk.ContainerID, job *api.Job, refusal error) error {
	k := n.cluster
	asking, cancel := k.in(ctx)
	defer cancel()
	if _, _, dry := k.client.Jobs().Plan(job, false, k.write(asking)); status(dry) == http.StatusInternalServerError {
		if _, err := n.lookup(ctx, id); sdk.IsNotFound(err, sdk.KindContainer) {
			return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonSpec, Kind: sdk.KindContainer, ID: string(id), Cause: refusal,
				Message: fmt.Sprintf("container %q: %s refuses its job: %s", id, k, said(dry))}
		}
	}
	return k.fail(ctx, "registering container "+string(id), refusal)
}
