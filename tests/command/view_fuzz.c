/* For libFuzzer (make fuzz): a process's memory. */
#include <string.h>

#include "image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The input is laid over a whole image: its first two bytes say where. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static uint8_t image[IMAGE_BYTES];
	size_t at;

	if (n < 2)
		return 0;
	at = (size_t)(data[0] | data[1] << 8) % IMAGE_BYTES;
	image_make(image);
	n = n - 2 < IMAGE_BYTES - at ? n - 2 : IMAGE_BYTES - at;
	memcpy(image + at, data + 2, n);
	image_look(image, sizeof(image));
	return 0;
}
