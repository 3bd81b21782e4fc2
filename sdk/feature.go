package sdk

// Feature names something that not every worker can do.
type Feature string

// The features of this version. A name that a host does not know is ignored by it.
const (
	FeatureTTY          Feature = "tty"            // ProcessSpec.TTY
	FeatureUsers        Feature = "users"          // ProcessSpec.User
	FeaturePrivileged   Feature = "privileged"     // ContainerSpec.Privileged, VolumeSpec.Privileged
	FeatureNetworkNone  Feature = "network.none"   // ContainerSpec.Hermetic
	FeatureImageVolume  Feature = "image.volume"   // Image.Volume
	FeatureImageRef     Feature = "image.ref"      // Image.Ref
	FeatureCloneLive    Feature = "clone.live"     // cloning an open volume
	FeatureVolumeImport Feature = "volume.import"  // VolumeSpec.Import
	FeatureLimitsCPU    Feature = "limits.cpu"     // ContainerSpec.Limits, field by field
	FeatureLimitsMemory Feature = "limits.memory"  //
	FeatureLimitsDisk   Feature = "limits.disk"    //
	FeatureLimitsPIDs   Feature = "limits.pids"    //
	FeatureExitOOM      Feature = "exit.oom"       // ExitOOM is told apart
	FeatureTarXattrs    Feature = "tar.xattrs"     // archives keep extended attributes
	FeatureTarSparse    Feature = "tar.sparse"     // archives keep holes
	FeatureTarDevices   Feature = "tar.devices"    // archives keep device nodes
	FeatureVolatile     Feature = "volatile"       // all that is made dies with the plugin's process: nothing is left to clean up
	FeatureTarDirTimes  Feature = "tar.dir-mtimes" // archives keep directories' modification times

	// These belong to optional interfaces, each in the file of its name.
	FeatureTTYResize   Feature = "tty.resize"
	FeatureFileRead    Feature = "files.read"
	FeaturePeerStream  Feature = "peer.stream"
	FeatureUsageReport Feature = "usage"
)

// StripFeatures takes from a status the features whose interface the worker's type does not implement, so that a name
// is never a lie. The serving side of a plugin calls it on every Status.
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
		case FeatureUsageReport:
			_, ok = w.(UsageReporter)
		}
		if ok {
			kept = append(kept, f)
		}
	}
	s.Features = kept
	return s
}
