/* The default of GOMAXPROCS. Owns the reading of cgroup quotas, of both versions and of
 * both mounted side by side. Refuses to guess: a file that is absent or makes no sense
 * means "no quota", and a cgroup that no mount shows is left alone, since a quota of
 * somebody else's would be worse than none. Next: procresize in proc.c. */
#include "procs.h"

#include <asm/errno.h>
#include <stddef.h>
#include <stdint.h>

#include "gmp.h"
#include "os.h"
#include "syscall.h"
#include "text.h"

enum {
	MAX_CPUS = 8192,
	PATH_CAP = 8192, /* twice what the kernel opens: what is cut could not be read */
	MIN_QUOTA = 2,
	ECHO_MAX = 40, /* of a refused $GOMAXPROCS */
};

/* A piece of a file's text; not ended by a 0. */
struct span {
	const char *at;
	size_t len;
};

struct path {
	char buf[PATH_CAP];
	size_t len;
	bool cut; /* it did not fit */
};

/* Reserved for one call, and committed only as far as the files reach. A host with many
 * containers has thousands of mounts. */
struct scratch {
	struct path mountroot; /* the cgroup that is seen at the mount point */
	struct path dir; /* the cgroup whose files are read */
	char cgroup[1 << 18];
	char mounts[1 << 22];
};

static bool is(struct span s, const char *text)
{
	size_t i = 0;
	while (i < s.len && text[i] && s.at[i] == text[i])
		i++;
	return i == s.len && !text[i];
}

/* The bound is beyond all that is passed here. Without one gcc knows the loop for a strlen
 * and calls libc's. */
static struct span whole(const char *text)
{
	struct span s = { text, 0 };
	while (s.len < PATH_CAP && text[s.len])
		s.len++;
	return s;
}

/* Takes the text up to the next sep off the front of *rest, and drops the sep. */
static struct span cut(struct span *rest, char sep)
{
	struct span s = { rest->at, 0 };
	while (s.len < rest->len && s.at[s.len] != sep)
		s.len++;
	size_t used = s.len < rest->len ? s.len + 1 : s.len;
	rest->at += used;
	rest->len -= used;
	return s;
}

static bool listed(struct span list, const char *word)
{
	while (list.len > 0)
		if (is(cut(&list, ','), word))
			return true;
	return false;
}

/* Takes a decimal number off the front; false if there is none, or none of 64 bits. */
static bool number(struct span *s, uint64_t *n)
{
	size_t i = 0;

	*n = 0;
	for (; i < s->len && s->at[i] >= '0' && s->at[i] <= '9'; i++)
		if (__builtin_mul_overflow(*n, 10, n) ||
		    __builtin_add_overflow(*n, (uint64_t)(s->at[i] - '0'), n))
			return false;
	s->at += i;
	s->len -= i;
	return i > 0;
}

static void path_char(struct path *p, char c)
{
	p->cut |= p->len + 1 >= PATH_CAP;
	if (p->cut)
		return;
	p->buf[p->len++] = c;
	p->buf[p->len] = 0;
}

static void path_put(struct path *p, struct span s)
{
	for (size_t i = 0; i < s.len; i++)
		path_char(p, s.at[i]);
}

static bool octal(char c)
{
	return c >= '0' && c <= '7';
}

/* In mountinfo a space, a tab, a line's end and a backslash are written \040 and so on;
 * in /proc/self/cgroup nothing is. */
static void path_unescape(struct path *p, struct span s)
{
	while (s.len > 0) {
		size_t used = 1;
		char c = s.at[0];
		if (c == '\\' && s.len >= 4 && octal(s.at[1]) && octal(s.at[2]) && octal(s.at[3])) {
			c = (char)((s.at[1] - '0') * 64 + (s.at[2] - '0') * 8 + s.at[3] - '0');
			used = 4;
		}
		path_char(p, c);
		s.at += used;
		s.len -= used;
	}
}

/* Takes the components ".." off the front of a path, and counts them. */
static unsigned ups(struct span *path)
{
	unsigned n = 0;

	while (path->len >= 3 && path->at[0] == '/' && path->at[1] == '.' && path->at[2] == '.' &&
	       (path->len == 3 || path->at[3] == '/')) {
		path->at += 3;
		path->len -= 3;
		n++;
	}
	return n;
}

/* Says where the cgroup `path` is below a mount point that shows the cgroup `root`. Both
 * count from the root of our cgroup namespace, so "/.." is its parent, whose name we are
 * not told.
 * Returns false if it can not be seen there. *below is "" or begins with a slash. */
static bool cgroup_below(struct span root, struct span path, struct span *below)
{
	*below = (struct span){ path.at, 0 };
	unsigned rootups = ups(&root), pathups = ups(&path);

	if (root.len == 1)
		root.len = 0;
	if (path.len == 1)
		path.len = 0;
	/* The mount shows an ancestor of ours, but we do not know the way down from there.
	 * Its own quota binds us all the same. */
	if (pathups < rootups)
		return root.len == 0;
	if (pathups > rootups || path.len < root.len)
		return false;
	for (size_t i = 0; i < root.len; i++)
		if (root.at[i] != path.at[i])
			return false;
	if (root.len < path.len && path.at[root.len] != '/')
		return false;
	*below = (struct span){ path.at + root.len, path.len - root.len };
	return true;
}

/* Reads a small file of the cgroup at dir. */
static struct span dir_file(struct path *dir, const char *name, char *buf, size_t len)
{
	size_t end = dir->len;
	int n = -ENAMETOOLONG;

	path_char(dir, '/');
	path_put(dir, whole(name));
	if (!dir->cut)
		n = os_readfile(dir->buf, buf, len);
	dir->len = end;
	dir->buf[end] = 0;
	dir->cut = false;
	return (struct span){ buf, n > 0 ? (size_t)n : 0 };
}

/* The quota of one cgroup in cpus, rounded up; 0: none. "max" and -1 are no numbers. */
static int dir_quota(struct path *dir, bool v2)
{
	char first[64], second[64];
	struct span quota, period;
	uint64_t q, p;

	if (v2) {
		period = dir_file(dir, "cpu.max", first, sizeof(first));
		quota = cut(&period, ' ');
	} else {
		quota = dir_file(dir, "cpu.cfs_quota_us", first, sizeof(first));
		period = dir_file(dir, "cpu.cfs_period_us", second, sizeof(second));
	}
	if (!number(&quota, &q) || !number(&period, &p) || p == 0)
		return 0;
	uint64_t cpus = q / p + (q % p != 0);
	return cpus > MAX_PROCS ? MAX_PROCS : (int)cpus;
}

static int least(int a, int b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The least quota of the cgroup at dir and of all above it, down to the mount point, whose
 * path is the first `stop` bytes; what follows them begins with a slash. */
static int walk_quota(struct path *dir, size_t stop, bool v2)
{
	int cpus = 0;

	for (;;) {
		cpus = least(cpus, dir_quota(dir, v2));
		if (dir->len <= stop)
			return cpus;
		while (dir->buf[--dir->len] != '/')
			;
		dir->buf[dir->len] = 0;
	}
}

/* One line of mountinfo: if it mounts the hierarchy that `cgroup` is a path of, the quota
 * found there. The line reads
 *   id parent device root mountpoint options [tag[:value] ...] - type source superoptions */
static int mount_quota(struct scratch *w, const char *prefix, struct span line, struct span cgroup,
		       bool v2)
{
	struct span root, point, type, below;

	for (int i = 0; i < 3; i++)
		cut(&line, ' ');
	root = cut(&line, ' ');
	point = cut(&line, ' ');
	while (line.len > 0 && !is(cut(&line, ' '), "-"))
		;
	type = cut(&line, ' ');
	cut(&line, ' ');
	if (!is(type, v2 ? "cgroup2" : "cgroup") || (!v2 && !listed(line, "cpu")))
		return 0;

	w->mountroot.len = w->dir.len = 0;
	w->mountroot.cut = w->dir.cut = false;
	path_unescape(&w->mountroot, root);
	path_put(&w->dir, whole(prefix));
	path_unescape(&w->dir, point);
	root = (struct span){ w->mountroot.buf, w->mountroot.len };
	if (w->mountroot.cut || !cgroup_below(root, cgroup, &below))
		return 0;
	size_t stop = w->dir.len;
	path_put(&w->dir, below);
	return walk_quota(&w->dir, stop, v2);
}

static struct span root_file(struct scratch *w, const char *prefix, const char *name, char *buf,
			     size_t len)
{
	w->dir.len = 0;
	w->dir.cut = false;
	path_put(&w->dir, whole(prefix));
	return dir_file(&w->dir, name, buf, len);
}

/* Each line of /proc/self/cgroup is "id:controllers:path", of v2 "0::path"; a path may hold
 * colons. A controller sits in one hierarchy only, so of a v1 and a v2 path at most one
 * has a quota, and no rule is needed as to which counts. */
static int scratch_quota(struct scratch *w, const char *prefix)
{
	struct span lines = root_file(w, prefix, "proc/self/cgroup", w->cgroup, sizeof(w->cgroup));
	struct span mounts = root_file(w, prefix, "proc/self/mountinfo", w->mounts,
				       sizeof(w->mounts));
	int cpus = 0;

	while (lines.len > 0) {
		struct span path = cut(&lines, '\n');
		bool v2 = is(cut(&path, ':'), "0");
		struct span controllers = cut(&path, ':');
		if (!v2 && !listed(controllers, "cpu"))
			continue;
		for (struct span rest = mounts; rest.len > 0;)
			cpus = least(cpus, mount_quota(w, prefix, cut(&rest, '\n'), path, v2));
	}
	return cpus;
}

int procs_quota(const char *root)
{
	struct scratch *w = os_reserve(sizeof(*w));

	if (os_failed(w))
		return 0;
	int cpus = scratch_quota(w, root);
	os_release(w, sizeof(*w));
	return cpus;
}

int procs_affinity(void)
{
	uint64_t mask[MAX_CPUS / 64] = { 0 };
	int cpus = 0;

	/* 0 is the calling thread. The kernel writes as many bytes as it has cpus for. */
	if (arch_syscall3(__NR_sched_getaffinity, 0, sizeof(mask), (long)mask) < 0)
		return 1;
	for (size_t i = 0; i < MAX_CPUS / 64; i++)
		for (uint64_t bits = mask[i]; bits; bits &= bits - 1)
			cpus++;
	return cpus < 1 ? 1 : cpus;
}

int procs_available(const char *root)
{
	int cpus = procs_affinity(), quota;

	/* The quota could not lessen it, and the files are long to read. */
	if (cpus <= MIN_QUOTA)
		return cpus;
	quota = procs_quota(root);
	if (quota != 0 && quota < MIN_QUOTA)
		quota = MIN_QUOTA;
	cpus = least(cpus, quota);
	return cpus > MAX_PROCS ? MAX_PROCS : cpus;
}

/* The value is the user's, of any length and with any bytes: it must not make the report
 * two lines, nor steer a terminal. */
static void complain(const char *value, int cpus)
{
	char line[160], echo[ECHO_MAX + 4];
	struct text t = TEXT(line);
	size_t n = 0;

	for (; value[n] && n < ECHO_MAX; n++)
		echo[n] = value[n] < ' ' || value[n] == 127 ? '?' : value[n];
	for (size_t dots = value[n] ? 3 : 0; dots > 0; dots--)
		echo[n++] = '.';
	echo[n] = 0;
	text_put(&t, "heddle: GOMAXPROCS=");
	text_put(&t, echo);
	text_put(&t, " is not a number from 1 to ");
	text_num(&t, MAX_PROCS);
	text_put(&t, "; using ");
	text_num(&t, cpus);
	text_put(&t, "\n");
	text_write2(&t);
}

int procs_default(const char *text, bool *complained)
{
	*complained = false;
	if (!text || !*text)
		return procs_available("");

	struct span s = whole(text);
	uint64_t n;
	if (number(&s, &n) && s.len == 0 && n >= 1 && n <= MAX_PROCS)
		return (int)n;
	int cpus = procs_available("");
	complain(text, cpus);
	*complained = true;
	return cpus;
}
