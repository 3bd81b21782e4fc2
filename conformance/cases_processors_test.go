package conformance

import "testing"

func TestReadCPULimit(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  cpuLimit
	}{
		"nothing to see": {nil, cpuLimit{share: 1}},
		"version 2, in a cgroup of its own": {map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "25000 100000", "/sys/fs/cgroup/cpu.weight": "10",
		}, cpuLimit{250, 10, true}},
		"version 2, with processes in parts of it": {map[string]string{
			"/proc/self/cgroup": "0::/one/process", "/sys/fs/cgroup/one/process/cpu.max": "max 100000", "/sys/fs/cgroup/one/process/cpu.weight": "100",
			"/sys/fs/cgroup/one/cpu.max": "50000 100000", "/sys/fs/cgroup/one/cpu.weight": "20",
		}, cpuLimit{500, 2000, true}},
		"version 2, unlimited": {map[string]string{"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/cpu.max": "max 100000", "/sys/fs/cgroup/cpu.weight": "100"}, cpuLimit{0, 100, true}},
		"version 1, seen from within, with the path of outside": {map[string]string{
			"/proc/self/cgroup": "9:name=systemd:/x\n4:cpu,cpuacct:/docker/abc\n0::/\n", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
			"/sys/fs/cgroup/cpu/cpu.shares": "256",
		}, cpuLimit{0, 256, true}},
		"version 1, the tighter of two bounds": {map[string]string{
			"/proc/self/cgroup": "1:cpu:/outer/inner", "/sys/fs/cgroup/cpu/outer/inner/cpu.cfs_quota_us": "200000", "/sys/fs/cgroup/cpu/outer/inner/cpu.cfs_period_us": "100000",
			"/sys/fs/cgroup/cpu/outer/inner/cpu.shares": "1024", "/sys/fs/cgroup/cpu/outer/cpu.cfs_quota_us": "10000", "/sys/fs/cgroup/cpu/outer/cpu.cfs_period_us": "20000",
		}, cpuLimit{500, 1024, true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readCPULimit(func(file string) string { return tt.files[file] }); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
