/* What a program checks of its own work. */
#ifndef APPS_MUST_H
#define APPS_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(c)                                                                                    \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			printf("line %d: not so: %s\n", __LINE__, #c);                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
