/* For libFuzzer (make fuzz): a process's memory. */
#include <string.h>

#include "image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The input is laid over a whole image, piece by piece: where, how much, and what. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	enum { HEAD = 3 };
	static uint8_t image[IMAGE_BYTES];

	image_make(image);
	while (n > HEAD) {
		size_t at = (size_t)(data[0] | data[1] << 8) % IMAGE_BYTES, bytes = data[2];
		data += HEAD;
		n -= HEAD;
		bytes = bytes < n ? bytes : n;
		bytes = bytes < IMAGE_BYTES - at ? bytes : IMAGE_BYTES - at;
		memcpy(image + at, data, bytes);
		data += bytes;
		n -= bytes;
	}
	image_look(image, sizeof(image));
	return 0;
}
