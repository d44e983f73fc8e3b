/* For the programs that tests build: how many kernel threads this one has. */
#include <stdio.h>

static inline int kernel_threads(void)
{
	char line[256];
	int n = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "Threads: %d", &n);
	if (f)
		fclose(f);
	return n;
}
