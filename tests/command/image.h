/* A made-up process for the readers of the heddle command: what its memory would hold, in a file.
 */
#ifndef HEDDLE_TESTS_IMAGE_H
#define HEDDLE_TESTS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

enum {
	IMAGE_PAGE = 0x1000, /* where its view_page is */
	IMAGE_BYTES = 0x8000,
	IMAGE_GS = 5,
	IMAGE_MS = 2,
	IMAGE_PS = 2,
};

/* image_make: a whole one. image_look: does all that the command does with a process's memory;
 * returns how many Gs it saw, -1 if it refused. */
void image_make(uint8_t *image);
int image_look(const uint8_t *image, size_t n);

#endif
