/* Another process's memory, read through /proc/PID/mem a page at a time and kept for the length
 * of one look. Refuses to write, and to trust: an address that is not there is a read that fails.
 */
#ifndef HEDDLE_COMMAND_MEM_H
#define HEDDLE_COMMAND_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mem;

/* mem_open: NULL and errno, if the kernel does not let us. mem_of: a look into a file that holds
 * what a process would, from address 0 on; for tests. */
struct mem *mem_open(pid_t pid);
struct mem *mem_of(int fd);
void mem_close(struct mem *mem);

/* mem_fresh: what was read so far may have changed. */
void mem_fresh(struct mem *mem);

/* mem_read: all of it, or false. */
bool mem_read(struct mem *mem, uint64_t at, void *to, size_t n);

#endif
