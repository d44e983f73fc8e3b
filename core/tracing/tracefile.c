/* Writing for tracefile.h. By raw calls, in the table of descriptors of the calling thread. */
#include "tracefile.h"

#include <asm/unistd.h>
#include <linux/fcntl.h>

#include "os.h"
#include "syscall.h"

enum { OWNER_ONLY = 0600, EIO_ = 5, ENOMEM_ = 12, BEGINNING = 2 };

int tracefile_make(const char *path)
{
	return (int)arch_syscall4(__NR_openat, AT_FDCWD, (long)path,
				  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, OWNER_ONLY);
}

int tracefile_open(struct tracefile *f, int fd, uint64_t limit)
{
	/* Once for all traces. */
	if (!f->buf) {
		char *buf = os_reserve(TRACEFILE_BYTES);
		if (os_failed(buf)) {
			arch_syscall3(__NR_close, fd, 0, 0);
			return -ENOMEM_;
		}
		f->buf = buf;
	}
	f->fd = fd;
	f->to = f->buf;
	f->at = f->size = 0;
	f->most = limit == 0 ? UINT64_MAX : limit < TRACEFILE_LEAST ? TRACEFILE_LEAST : limit;
	put(f, "[\n");
	return 0;
}

void tracefile_close(struct tracefile *f)
{
	arch_syscall3(__NR_close, f->fd, 0, 0);
	f->fd = -1;
}

/* One call, as a rule. */
static long write_at(int fd, const char *from, size_t n, uint64_t at)
{
	size_t done = 0;

	while (done < n) {
		long r = os_enlarge(__NR_pwrite64, fd, (long)(from + done), (long)(n - done),
				    (long)(at + done));
		if (r <= 0)
			return r < 0 ? r : -EIO_;
		done += (size_t)r;
	}
	return 0;
}

/* There is no room for more: an end that stands where the last one stood needs none. */
static void close_again(struct tracefile *f)
{
	static const char end[] = "{\"ph\":\"M\",\"pid\":1,\"name\":\"cut\"}\n]\n";

	if (f->at == 0 || write_at(f->fd, end, sizeof(end) - 1, f->at) < 0)
		return;
	arch_syscall3(__NR_ftruncate, f->fd, (long)(f->at + sizeof(end) - 1), 0);
}

int tracefile_write(struct tracefile *f, const char *stays)
{
	uint64_t end;
	long r;

	put(f, "\n]\n");
	/* Of a longer end nothing is left, and the file never needs to be cut: what stands behind
	 * the bracket may be blank. */
	end = f->at + put_sofar(f);
	while (end < f->size) {
		*f->to++ = '\n';
		end++;
	}
	r = write_at(f->fd, f->buf, put_sofar(f), f->at);
	if (r < 0) {
		close_again(f);
		return (int)r;
	}
	f->at += (uint64_t)(stays - f->buf);
	f->size = end;
	f->to = f->buf;
	return 0;
}

void put_number(struct tracefile *f, uint64_t n)
{
	char digits[20], *to = f->to;
	int i = 0;

	do
		digits[i++] = (char)('0' + n % 10);
	while (n /= 10);
	while (i > 0)
		*to++ = digits[--i];
	f->to = to;
}

void put_hex(struct tracefile *f, uint64_t n)
{
	int shift = 60;

	put(f, "0x");
	while (shift > 0 && n >> shift == 0)
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		*f->to++ = "0123456789abcdef"[n >> shift & 15];
}

void put_time(struct tracefile *f, uint64_t ns)
{
	uint32_t rest = (uint32_t)(ns % 1000);

	put_number(f, ns / 1000);
	f->to[0] = '.';
	f->to[1] = (char)('0' + rest / 100);
	f->to[2] = (char)('0' + rest / 10 % 10);
	f->to[3] = (char)('0' + rest % 10);
	f->to += 4;
}

void put_text(struct tracefile *f, const char *text, size_t n)
{
	enum { DELETE = 127 };

	for (size_t i = 0; i < n && text[i]; i++)
		*f->to++ = text[i] < ' ' || text[i] >= DELETE || text[i] == '"' || text[i] == '\\'
				   ? '?'
				   : text[i];
}
