/* The default of GOMAXPROCS: what it reads of cgroups, on trees of files made here, and what
 * it says of a value it can not use. */
#include "procs.h"

#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../test.h"

static char root[] = "/tmp/heddle-procs-XXXXXX";

/* Writes a file of the tree, and makes the folders above it. */
static void put(const char *path, const char *text)
{
	char at[9000];

	snprintf(at, sizeof(at), "%s%s", root, path);
	for (char *slash = at + sizeof(root); (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(at, 0700);
		*slash = '/';
	}
	FILE *f = fopen(at, "w");
	EXPECT(f != NULL);
	fputs(text, f);
	fclose(f);
}

static void tree(const char *cgroup, const char *mountinfo)
{
	if (strstr(root, "XXXXXX"))
		EXPECT(mkdtemp(root) != NULL);
	put("/proc/self/cgroup", cgroup);
	put("/proc/self/mountinfo", mountinfo);
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* The quota found in the tree, which is removed. */
static int quota(void)
{
	int cpus = procs_quota(root);
	nftw(root, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
	mkdir(root, 0700);
	return cpus;
}

static void done(void)
{
	rmdir(root);
}

static const char v2_mount[] =
	"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

TEST(a_v2_quota_is_rounded_up)
{
	static const struct {
		const char *max;
		int cpus;
	} cases[] = {
		{ "max 100000\n", 0 },	  { "100000 100000\n", 1 }, { "150000 100000\n", 2 },
		{ "200000 100000\n", 2 }, { "200001 100000\n", 3 }, { "1000 100000\n", 1 },
		{ "50000 10000\n", 5 },	  { "1 1000000\n", 1 },	    { "999999999999 1\n", 1024 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tree("0::/app\n", v2_mount);
		put("/sys/fs/cgroup/app/cpu.max", cases[i].max);
		EXPECT_EQ(quota(), cases[i].cpus);
	}
	done();
}

TEST(the_least_quota_of_all_ancestors_counts)
{
	tree("0::/a/b/c\n", v2_mount);
	put("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
	EXPECT_EQ(quota(), 3);

	tree("0::/a/b/c\n", v2_mount);
	put("/sys/fs/cgroup/a/b/c/cpu.max", "200000 100000\n");
	put("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
	EXPECT_EQ(quota(), 2);

	/* The mount point itself: the root of a container's namespace has a quota. */
	tree("0::/\n", v2_mount);
	put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
	EXPECT_EQ(quota(), 4);

	/* What is above the mount point is no cgroup. */
	tree("0::/a\n", v2_mount);
	put("/sys/fs/cpu.max", "100000 100000\n");
	put("/sys/fs/cgroup/a/cpu.max", "700000 100000\n");
	EXPECT_EQ(quota(), 7);
	done();
}

static const char v1_mounts[] =
	"25 23 0:20 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
	"31 25 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
	"32 25 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	"33 25 0:32 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

static const char v1_lines[] = "11:cpuset:/other\n4:cpu,cpuacct:/batch/job\n1:name=systemd:/init\n";

TEST(a_v1_quota_and_its_period_are_two_files)
{
	tree(v1_lines, v1_mounts);
	put("/sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_quota_us", "250000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_period_us", "100000\n");
	EXPECT_EQ(quota(), 3);

	tree(v1_lines, v1_mounts);
	put("/sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_period_us", "100000\n");
	EXPECT_EQ(quota(), 0);

	tree(v1_lines, v1_mounts);
	put("/sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "200000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "50000\n");
	EXPECT_EQ(quota(), 4);
	done();
}

TEST(of_v1_only_the_hierarchy_of_cpu_counts)
{
	tree(v1_lines, v1_mounts);
	put("/sys/fs/cgroup/cpuset/other/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpuset/other/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/systemd/init/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/systemd/init/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/cpuset/batch/job/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpuset/batch/job/cpu.cfs_period_us", "100000\n");
	EXPECT_EQ(quota(), 0);
	done();
}

TEST(of_hybrid_mounts_the_one_with_the_controller_counts)
{
	char mounts[2000];

	snprintf(mounts, sizeof(mounts), "%s%s", v1_mounts,
		 "42 25 0:28 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw\n");
	tree("4:cpu,cpuacct:/job\n0::/unit\n", mounts);
	put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/unified/unit/cgroup.procs", "1\n");
	EXPECT_EQ(quota(), 3);

	tree("9:memory:/job\n0::/unit\n", mounts);
	put("/sys/fs/cgroup/unified/unit/cpu.max", "500000 100000\n");
	EXPECT_EQ(quota(), 5);
	done();
}

TEST(a_mount_that_shows_part_of_a_hierarchy_is_entered_there)
{
	static const char mount[] =
		"33 25 0:32 /docker/abc /sys/fs/cgroup/cpu ro master:12 - cgroup cgroup rw,cpu\n"
		"42 25 0:28 /docker/abc /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n";

	/* A container without a namespace of its own, of v1. */
	tree("4:cpu:/docker/abc\n", mount);
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "600000\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	EXPECT_EQ(quota(), 6);

	tree("0::/docker/abc/worker\n", mount);
	put("/sys/fs/cgroup/unified/worker/cpu.max", "200000 100000\n");
	put("/sys/fs/cgroup/unified/cpu.max", "600000 100000\n");
	EXPECT_EQ(quota(), 2);
	done();
}

TEST(a_mount_that_does_not_show_our_cgroup_is_left_alone)
{
	static const char mount[] = "42 25 0:28 /docker/abc /cg ro - cgroup2 cgroup2 rw\n";
	static const char *const elsewhere[] = {
		"0::/docker\n", "0::/docker/abcd\n",   "0::/docker/ab\n",
		"0::/\n",	"0::/../docker/abc\n",
	};

	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
		tree(elsewhere[i], mount);
		put("/cg/cpu.max", "100000 100000\n");
		put("/cg/d/cpu.max", "100000 100000\n");
		put("/cg/docker/abc/cpu.max", "100000 100000\n");
		EXPECT_EQ(quota(), 0);
	}
	done();
}

TEST(paths_above_the_namespace_are_followed_as_far_as_they_are_known)
{
	/* The mount shows an ancestor; the way down to us is hidden, its quota binds us. */
	tree("0::/\n", "42 25 0:28 /../.. /cg ro - cgroup2 cgroup2 rw\n");
	put("/cg/cpu.max", "300000 100000\n");
	EXPECT_EQ(quota(), 3);

	tree("0::/../peer\n", "42 25 0:28 /../.. /cg ro - cgroup2 cgroup2 rw\n");
	put("/cg/cpu.max", "300000 100000\n");
	put("/cg/peer/cpu.max", "100000 100000\n");
	put("/cg/../peer/cpu.max", "100000 100000\n");
	EXPECT_EQ(quota(), 3);

	/* Both count from the same place. */
	tree("0::/../../peer/x\n", "42 25 0:28 /../.. /cg ro - cgroup2 cgroup2 rw\n");
	put("/cg/peer/x/cpu.max", "200000 100000\n");
	put("/cg/cpu.max", "300000 100000\n");
	EXPECT_EQ(quota(), 2);

	/* Another child of an ancestor. */
	tree("0::/x\n", "42 25 0:28 /../peer /cg ro - cgroup2 cgroup2 rw\n");
	put("/cg/cpu.max", "100000 100000\n");
	put("/cg/x/cpu.max", "100000 100000\n");
	EXPECT_EQ(quota(), 0);

	/* We were moved out of what the mount shows: /cg/../peer is no cgroup at all. */
	tree("0::/../peer\n", "42 25 0:28 / /cg ro - cgroup2 cgroup2 rw\n");
	put("/cg/cpu.max", "100000 100000\n");
	put("/peer/cpu.max", "100000 100000\n");
	EXPECT_EQ(quota(), 0);
	done();
}

TEST(escapes_and_odd_names_are_understood)
{
	tree("0::/x y\n", "42 25 0:28 / /my\\040groups\\134\\011 ro - cgroup2 none rw\n");
	put("/my groups\\\t/x y/cpu.max", "200000 100000\n");
	EXPECT_EQ(quota(), 2);

	tree("0::/a b/c\n", "42 25 0:28 /a\\040b /cg ro - cgroup2 cgroup2 rw\n");
	put("/cg/c/cpu.max", "200000 100000\n");
	EXPECT_EQ(quota(), 2);

	tree("0::/user:1000:x\n", v2_mount);
	put("/sys/fs/cgroup/user:1000:x/cpu.max", "200000 100000\n");
	EXPECT_EQ(quota(), 2);

	/* A path that ends in a backslash, and what only looks like an escape. */
	tree("0::/a\n", "42 25 0:28 / /cg\\ ro - cgroup2 cgroup2 rw\n");
	put("/cg\\/a/cpu.max", "200000 100000\n");
	EXPECT_EQ(quota(), 2);

	/* A cgroup that was removed under us: its ancestors still bind. */
	tree("0::/a/gone (deleted)\n", v2_mount);
	put("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
	EXPECT_EQ(quota(), 2);
	done();
}

TEST(any_number_of_tags_and_mounts_may_come_before)
{
	static char mounts[400000];
	size_t len = 0;

	for (int i = 0; i < 3000; i++)
		len += (size_t)snprintf(mounts + len, sizeof(mounts) - len,
					"%d 1 0:%d / /var/lib/containers/overlay/%d rw shared:%d"
					" - overlay cgroup2 rw,lowerdir=/cpu\n",
					i + 100, i, i, i);
	snprintf(
		mounts + len, sizeof(mounts) - len,
		"42 25 0:28 / /cg ro shared:1 master:2 propagate_from:3 unbindable - cgroup2 a rw\n");
	tree("0::/a\n", mounts);
	put("/cg/a/cpu.max", "200000 100000\n");
	EXPECT_EQ(quota(), 2);
	done();
}

TEST(what_makes_no_sense_is_no_quota)
{
	static const char *const values[] = {
		"",
		"\n",
		" ",
		"max",
		"100000",
		"100000 ",
		"100000 0\n",
		"0 100000\n",
		"-100000 100000\n",
		"99999999999999999999999 100000\n",
		"100000 99999999999999999999999\n",
		"abc def\n",
	};
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		tree("0::/a\n", v2_mount);
		put("/sys/fs/cgroup/a/cpu.max", values[i]);
		EXPECT_EQ(quota(), 0);
	}

	static const char *const lines[] = { "",   "\n",  ":",	   "::",    "0",
					     "0:", "0::", "0::\n", "\n\n0", "cpu" };
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		for (size_t k = 0; k < sizeof(lines) / sizeof(lines[0]); k++) {
			tree(lines[i], lines[k]);
			EXPECT_EQ(quota(), 0);
		}

	static const char *const mounts[] = {
		"42",
		"42 25 0:28 / /cg ro",
		"42 25 0:28 / /cg ro -",
		"42 25 0:28 / /cg ro - cgroup",
		"42 25 0:28 / /cg ro - cgroup cgroup",
		"- - - - - - -",
		"     ",
		"42 25 0:28 / /cg ro - \n",
	};
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		tree("0::/a\n2:cpu:/a\n", mounts[i]);
		put("/cg/a/cpu.max", "100000 100000\n");
		EXPECT_EQ(quota(), 0);
	}
	EXPECT_EQ(procs_quota("/nowhere"), 0);
	EXPECT_EQ(procs_quota(""), procs_quota(""));
	done();
}

TEST(of_a_path_that_is_too_long_the_ancestors_count)
{
	static char lines[20000];

	/* Longer than the kernel opens: the walk comes up to where it does. */
	strcpy(lines, "0::");
	for (int i = 0; i < 3000; i++)
		strcat(lines, "/x");
	tree(lines, v2_mount);
	put("/sys/fs/cgroup/x/x/cpu.max", "200000 100000\n");
	EXPECT_EQ(quota(), 2);

	/* Longer than our own buffer. */
	strcpy(lines, "0::");
	for (int i = 0; i < 9000; i++)
		strcat(lines, "/x");
	tree(lines, v2_mount);
	put("/sys/fs/cgroup/x/x/cpu.max", "200000 100000\n");
	EXPECT_EQ(quota(), 2);
	done();
}

/* Leaves one cpu of the mask; returns how many there were. */
static int pin(void)
{
	cpu_set_t set, one;
	size_t cpu = 0;

	EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	int n = CPU_COUNT(&set);
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	return n;
}

TEST(the_cpus_of_the_mask_are_counted)
{
	int before = procs_affinity();

	EXPECT_EQ(before, pin());
	EXPECT_EQ(procs_affinity(), 1);
}

TEST(the_lesser_of_mask_and_quota_counts_but_a_quota_is_two_at_least)
{
	int mask = procs_affinity();
	static const int quotas[] = { 1, 2, 3, 5000 };

	for (int i = 0; i < 4; i++) {
		char max[64];
		int want = quotas[i] < 2 ? 2 : quotas[i];
		snprintf(max, sizeof(max), "%d00000 100000\n", quotas[i]);
		tree("0::/a\n", v2_mount);
		put("/sys/fs/cgroup/a/cpu.max", max);
		EXPECT_EQ(procs_available(root), mask < want ? mask : want);
		if (i == 3) {
			pin();
			EXPECT_EQ(procs_available(root), 1);
		}
		quota();
	}
	tree("0::/a\n", v2_mount);
	EXPECT_EQ(procs_available(root), 1);
	put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
	EXPECT_EQ(procs_available(root), 1);
	quota();
	done();
}

/* Standard error, as packets: one write is one of them. */
static int stderr_packets(void)
{
	int pair[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	EXPECT_EQ(dup2(pair[1], 2), 2);
	return pair[0];
}

TEST(a_number_from_1_to_1024_is_taken)
{
	static const struct {
		const char *text;
		int n;
	} cases[] = { { "1", 1 },   { "2", 2 },	      { "7", 7 },
		      { "64", 64 }, { "1024", 1024 }, { "08", 8 } };
	bool complained = true;

	close(stderr_packets());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EXPECT_EQ(procs_default(cases[i].text, &complained), cases[i].n);
		EXPECT(!complained);
	}
}

TEST(what_is_not_set_is_what_the_machine_allows)
{
	bool complained = true;
	char buf[8];
	int err = stderr_packets();

	EXPECT_EQ(procs_default(NULL, &complained), procs_available(""));
	EXPECT(!complained);
	EXPECT_EQ(procs_default("", &complained), procs_available(""));
	EXPECT(!complained);
	EXPECT(recv(err, buf, sizeof(buf), MSG_DONTWAIT) < 0);
}

TEST(another_value_is_refused_in_one_line)
{
	static const char long_value[] =
		"0123456789012345678901234567890123456789012345678901234567890";
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{ "abc", "abc" },
		{ "0", "0" },
		{ "-1", "-1" },
		{ "+4", "+4" },
		{ " 4", " 4" },
		{ "4 ", "4 " },
		{ "4x", "4x" },
		{ "0x4", "0x4" },
		{ "1.5", "1.5" },
		{ "1025", "1025" },
		{ "4294967297", "4294967297" },
		{ "18446744073709551617", "18446744073709551617" },
		{ "a\nb\033[2J", "a?b?[2J" },
		{ long_value, "0123456789012345678901234567890123456789..." },
	};
	int err = stderr_packets();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool complained = false;
		char want[256], got[256] = "";
		int n = procs_default(cases[i].text, &complained);
		EXPECT(complained);
		EXPECT_EQ(n, procs_available(""));
		snprintf(want, sizeof(want),
			 "heddle: GOMAXPROCS=%s is not a number from 1 to 1024; using %d\n",
			 cases[i].shown, n);
		EXPECT(recv(err, got, sizeof(got) - 1, MSG_DONTWAIT) > 0);
		EXPECT_EQ(strcmp(got, want), 0);
		EXPECT(recv(err, got, sizeof(got) - 1, MSG_DONTWAIT) < 0);
	}
}

TEST(nothing_stays_mapped)
{
	long before, after;
	FILE *f = fopen("/proc/self/statm", "r");

	procs_quota("");
	EXPECT(f && fscanf(f, "%ld", &before) == 1);
	for (int i = 0; i < 10; i++)
		procs_quota("");
	rewind(f);
	EXPECT(fscanf(f, "%ld", &after) == 1);
	EXPECT_EQ(before, after);
}
