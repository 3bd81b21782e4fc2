package nomad

import (
	"testing"

	"github.com/hashicorp/nomad/api"
)

// TestNeverFits leaves to the machine what its operator has reserved.
func TestNeverFits(t *testing.T) {
	stub := &api.NodeListStub{
		NodeResources:     &api.NodeResources{Memory: api.NodeMemoryResources{MemoryMB: 1000}, Cpu: api.NodeCpuResources{CpuShares: 2000}},
		ReservedResources: &api.NodeReservedResources{Memory: api.NodeReservedMemoryResources{MemoryMB: 100}, Cpu: api.NodeReservedCpuResources{CpuShares: 500}},
	}
	n := &node{name: "pool/1", pool: &pool{seen: map[string]*api.NodeListStub{"pool/1": stub}}}
	for _, test := range []struct {
		memory, cpu int
		want        bool
	}{{900, 1500, false}, {901, 1, true}, {1, 1501, true}} {
		if got := n.neverFits(&api.Resources{MemoryMB: &test.memory, CPU: &test.cpu}); got != test.want {
			t.Errorf("%d MiB and %d MHz never fit: %v", test.memory, test.cpu, got)
		}
	}
}
