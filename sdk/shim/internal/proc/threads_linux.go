package proc

import (
	"runtime"
	"sync"
)

// ReserveThreads makes so many threads for later. Go ends a program that cannot get a thread when it needs one, as in a container that
// has as many processes as it may; threads that there are it keeps.
func ReserveThreads(n int) {
	var made, gone sync.WaitGroup
	release := make(chan struct{})
	made.Add(n)
	for range n {
		gone.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // else it would end with this
			made.Done()
			<-release
		})
	}
	made.Wait()
	close(release)
	gone.Wait()
}
