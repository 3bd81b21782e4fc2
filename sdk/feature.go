package sdk

// Feature names something that not every worker can do. Its values are stable; new ones may come.
type Feature string

// The features of this version, and what each is needed for. A host ignores names that it does not know.
const (
	FeatureTTY          Feature = "tty"            // ProcessSpec.TTY
	FeatureUsers        Feature = "users"          // ProcessSpec.User
	FeaturePrivileged   Feature = "privileged"     // ContainerSpec.Privileged, VolumeSpec.Privileged
	FeatureNetworkNone  Feature = "network.none"   // ContainerSpec.Hermetic
	FeatureImageVolume  Feature = "image.volume"   // Image.Volume
	FeatureImageRef     Feature = "image.ref"      // Image.Ref
	FeatureCloneLive    Feature = "clone.live"     // cloning an open volume
	FeatureVolumeImport Feature = "volume.import"  // VolumeSpec.Import
	FeatureLimitsCPU    Feature = "limits.cpu"     // ContainerSpec.Limits.CPUMillis
	FeatureLimitsMemory Feature = "limits.memory"  // ContainerSpec.Limits.MemoryBytes
	FeatureLimitsDisk   Feature = "limits.disk"    // ContainerSpec.Limits.DiskBytes
	FeatureLimitsPIDs   Feature = "limits.pids"    // ContainerSpec.Limits.PIDs
	FeatureExitOOM      Feature = "exit.oom"       // Exit.Reason is ExitOOM where memory ran out, never ExitSignalled
	FeatureTarXattrs    Feature = "tar.xattrs"     // archives keep extended attributes
	FeatureTarSparse    Feature = "tar.sparse"     // archives keep holes
	FeatureTarDevices   Feature = "tar.devices"    // archives keep device nodes
	FeatureVolatile     Feature = "volatile"       // all that is made dies with the plugin's process: nothing is left to clean up, and each process has new incarnations
	FeatureTarDirTimes  Feature = "tar.dir-mtimes" // archives keep directories' modification times

	// A worker has these only if its type implements the optional interface, too.
	FeatureTTYResize  Feature = "tty.resize"  // Resizer
	FeatureFileRead   Feature = "files.read"  // FileReader
	FeaturePeerStream Feature = "peer.stream" // PeerStreamer
)

// ResourceTypePrefix begins the image references of root file systems that lie on a worker by name, as Concourse's base resource types do. A
// worker may name those that it has, each as a feature: the prefix and the name. A host that is asked for one leaves out workers that name
// only others; one that names none is taken to have any.
const ResourceTypePrefix = "resource-type:"

// StripFeatures takes from a status the features whose interface the worker's type does not implement, so that a name
// is never a lie. The others stay in their order. What s.Features shares with the caller is left as it is. The serving side of a
// plugin calls it on every Status.
func StripFeatures(w Worker, s Status) Status {
	kept := make([]Feature, 0, len(s.Features))
	for _, f := range s.Features {
		ok := true
		switch f {
		case FeatureTTYResize:
			_, ok = w.(Resizer)
		case FeatureFileRead:
			_, ok = w.(FileReader)
		case FeaturePeerStream:
			_, ok = w.(PeerStreamer)
		}
		if ok {
			kept = append(kept, f)
		}
	}
	s.Features = kept
	return s
}
