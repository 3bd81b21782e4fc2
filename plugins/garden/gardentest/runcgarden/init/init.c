// Process 1 of runcgarden's containers: it does nothing, and reaps what others leave behind. One static file and one thread, so that it
// works in an empty root and takes next to nothing of the container's limits.
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(int sig) {
	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
}

int main(void) {
	struct sigaction act = {.sa_handler = reap, .sa_flags = SA_RESTART};
	sigemptyset(&act.sa_mask);
	if (sigaction(SIGCHLD, &act, NULL) != 0) {
		return 1;
	}
	for (;;) {
		pause();
	}
}
