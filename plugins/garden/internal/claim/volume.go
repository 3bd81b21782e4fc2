package claim

import (
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/concourse/baggageclaim"

	"github.com/slipway-run/slipway/sdk"
)

// What a volume is, its server keeps as properties. Labels are properties as they are; ours have a colon in the name, which no label has.
const (
	propToken  = "slipway:token"  // of whoever asked for it
	propState  = "slipway:state"  // one of the three below
	propParent = "slipway:parent" // id of the volume it was cloned from
	propRoot   = "slipway:root"   // owner and mode of the root directory of a sealed volume, once somebody looked
	propOwn    = OwnProperty
	propBase   = "slipway:base"  // on shared ones: the key
	propMade   = "slipway:made"  // on shared ones: when, in seconds of 1970
	propStore  = "slipway:store" // on the marker of the store: what it is known by
	ourPrefix  = "slipway:"
	ownShared  = "shared"
)

// OwnProperty is on the plugin's own volumes, which are never listed to hosts: the container that the volume belongs to, or "shared".
const OwnProperty = "slipway:own"

// The server writes properties over the old ones in place, so whoever reads at that moment may see a mixture. Values of one property that
// changes have one length, for then the mixture can be read, too.
const (
	stateMaking = "making"
	stateOpen   = "opened"
	stateSealed = "sealed"
)

// Volume is a volume as its server has it.
type Volume struct {
	ID         string // an id of the host, or a handle of one of the plugin's own
	Path       string // on the server
	State      sdk.VolumeState
	Privileged bool
	Labels     map[string]string
	Properties map[string]string // all there are; whose names have a colon are no labels

	token  string
	parent string
	root   root
	own    string
	made   string
	store  string
	base   string
}

// response is the server's description of a volume. The type of its package lacks whether it is privileged.
type response struct {
	baggageclaim.VolumeResponse
	Privileged bool `json:"privileged"`
}

func (r response) volume() Volume {
	p := r.Properties
	v := Volume{
		ID: r.Handle, Path: r.Path, Privileged: r.Privileged, Labels: make(map[string]string), Properties: p,
		token: p[propToken], parent: p[propParent], own: p[propOwn], made: p[propMade], store: p[propStore], base: p[propBase], root: parseRoot(p[propRoot]),
	}
	switch p[propState] {
	case stateOpen:
		v.State = sdk.VolumeOpen
	case stateSealed:
		v.State = sdk.VolumeSealed
	default:
		v.State = sdk.VolumeCreating
	}
	for k, val := range p {
		if !strings.HasPrefix(k, ourPrefix) {
			v.Labels[k] = val
		}
	}
	return v
}

// ours tells whether a host made the volume through this plugin.
func (v Volume) ours() bool { return v.token != "" && v.own == "" }

// properties are those of a new volume of a host.
func properties(spec sdk.VolumeSpec) baggageclaim.VolumeProperties {
	p := baggageclaim.VolumeProperties{propToken: string(spec.Token), propState: stateMaking, propRoot: root{}.String()}
	if spec.Clone != "" {
		p[propParent] = string(spec.Clone)
	}
	maps.Copy(p, spec.Labels)
	return p
}

// root is what the root directory of a volume is, as numbers inside the container.
type root struct {
	known    bool
	uid, gid int64
	mode     int64
}

// String has one length.
func (r root) String() string {
	if !r.known {
		return strings.Repeat("-", 26)
	}
	return fmt.Sprintf("%010d:%010d:%04o", r.uid, r.gid, r.mode)
}

func parseRoot(s string) root {
	var r root
	if n, err := fmt.Sscanf(s, "%010d:%010d:%04o", &r.uid, &r.gid, &r.mode); n != 3 || err != nil {
		return root{}
	}
	r.known = true
	return r
}

// importPath is the path to import, if the operator allowed it.
func (s *Store) importPath(what, p string) (string, error) {
	clean := path.Clean(p)
	if !path.IsAbs(p) {
		return "", sdk.NewInvalid(sdk.ReasonPath, "%s: the path to import %q is not absolute", what, p)
	}
	for _, allowed := range s.config.Imports {
		allowed = path.Clean(allowed)
		if clean == allowed || allowed == "/" || strings.HasPrefix(clean, allowed+"/") {
			return clean, nil
		}
	}
	return "", sdk.NewInvalid(sdk.ReasonPath, "%s: the path to import %q is below none that the operator allows (imports)", what, p)
}
