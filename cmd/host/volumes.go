package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
)

func (a *app) volumesCommand() *cobra.Command {
	var worker string
	c := &cobra.Command{
		Use:   "volumes",
		Short: "List the volumes on the workers, and what each is for",
		Long: `List the volumes on the workers, and what each is for.

A replica has the content of an artifact; inputs, outputs and caches belong to a container. It tells what the state directory knows, and
starts nothing; "slipway gc explain ID" tells why a volume stays or goes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withInventory(c.Context(), "volumes", func(i inventory, _ bool) error {
				list, err := i.Volumes(c.Context(), worker)
				if err != nil {
					return err
				}
				if a.format == formatJSON {
					return writeVolumesJSON(a.out, list)
				}
				return writeVolumes(a.out, list)
			})
		},
	}
	a.formatFlag(c)
	c.Flags().StringVar(&worker, "worker", "", "only those on the worker of this `name`")
	return c
}

func writeVolumes(to *outlet, list []host.VolumeInfo) error {
	t := newTable(to, "VOLUME", "WORKER", "STATE", "ROLE", "OWNER", "PATH", "ARTIFACT", "SIZE", "MADE")
	for _, v := range list {
		size := "-"
		if v.Bytes > 0 {
			size = byteSize(v.Bytes)
		}
		t.row(v.ID, v.Worker, v.State, v.Role, dash(v.Owner), dash(v.Path), dash(v.Artifact), size, clock(v.Created))
	}
	return t.end()
}

type jsonVolume struct {
	ID       string    `json:"id"`
	Worker   string    `json:"worker"`
	State    string    `json:"state"`              // creating, open, sealed or destroying
	Role     string    `json:"role"`               // replica, input, output or cache
	Owner    string    `json:"owner,omitempty"`    // of its container
	Path     string    `json:"path,omitempty"`     // where that mounts it
	Artifact string    `json:"artifact,omitempty"` // whose content it has
	Bytes    int64     `json:"bytes,omitempty"`    // left out: unknown
	Created  time.Time `json:"created"`
}

func writeVolumesJSON(to *outlet, list []host.VolumeInfo) error {
	out := make([]jsonVolume, 0, len(list))
	for _, v := range list {
		out = append(out, jsonVolume{ID: v.ID, Worker: v.Worker, State: v.State, Role: v.Role, Owner: v.Owner, Path: v.Path, Artifact: v.Artifact,
			Bytes: v.Bytes, Created: v.Created})
	}
	return to.writeJSON(out)
}
