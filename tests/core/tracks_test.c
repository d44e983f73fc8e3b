/* From events to the file of a trace: slices that are right or missing, and a file that is whole
 * whatever stops the writing. */
#include "tracks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "sched.h"

static char path[64], text[1 << 20];

/* A directory for the trace, whose name nobody else has. */
static struct tracefile *open_trace(void)
{
	static struct tracefile f;
	char dir[] = "/tmp/heddle-tracks-XXXXXX";

	EXPECT(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/t", dir);
	EXPECT_EQ(tracefile_open(&f, path, 0), 0);
	return &f;
}

static void remove_trace(void)
{
	unlink(path);
	*strrchr(path, '/') = 0;
	EXPECT_EQ(rmdir(path), 0);
}

static const char *content(void)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	EXPECT(n >= 0);
	close(fd);
	text[n] = 0;
	return text;
}

/* An array from its first letter to its last that is not blank, of so many objects. */
static bool is_whole(int elements)
{
	const char *s = content();
	int depth = 0, found = 0;
	size_t n = strlen(s);

	while (n > 0 && s[n - 1] == '\n')
		n--;
	if (n == 0 || s[0] != '[' || s[n - 1] != ']')
		return false;
	for (size_t i = 0; i < n; i++) {
		depth += (s[i] == '[' || s[i] == '{') - (s[i] == ']' || s[i] == '}');
		found += s[i] == '{';
		if (depth == 0 && i + 1 < n)
			return false;
	}
	return depth == 0 && found == elements;
}

static void put_object(struct tracefile *f, size_t bytes)
{
	put(f, "{\"n\":\"");
	memset(f->to, 'x', bytes);
	f->to += bytes;
	put(f, "\"}");
}

TEST(the_file_is_whole_after_each_write)
{
	struct tracefile *f = open_trace();
	/* Ends that are longer and shorter than the one before. */
	static const size_t ends[] = { 10, 20000, 5, 9000, 100, 0, 70000, 1 };
	struct stat st;
	int n = 0;

	for (int i = 0; i < 8; i++) {
		for (int j = 0; j <= i; j++, n++) {
			put_object(f, 30);
			put(f, ",\n");
		}
		const char *stays = f->to;
		put_object(f, ends[i]);
		EXPECT_EQ(tracefile_write(f, stays), 0);
		EXPECT(is_whole(n + 1));
	}
	EXPECT_EQ(stat(path, &st), 0);
	EXPECT_EQ(st.st_mode & 07777, 0600);
	tracefile_close(f);
	remove_trace();
}

TEST(a_full_disk_leaves_the_file_whole)
{
	struct tracefile *f = open_trace();
	struct rlimit limit = { 3000, 3000 };
	int n = 0, r = 0;

	signal(SIGXFSZ, SIG_IGN);
	EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	while (r == 0) {
		for (int i = 0; i < 7; i++) {
			put_object(f, 40);
			put(f, ",\n");
		}
		const char *stays = f->to;
		put_object(f, 200);
		r = tracefile_write(f, stays);
		n += r == 0 ? 7 : 0;
	}
	EXPECT_EQ(r, -EFBIG);
	EXPECT(n > 7);
	EXPECT(is_whole(n + 1));
	tracefile_close(f);
	remove_trace();
}

TEST(nothing_is_written_over_and_no_link_followed)
{
	struct tracefile *f = open_trace(), other = { .fd = -1 };
	char link[80];

	EXPECT_EQ(tracefile_open(&other, path, 0), -EEXIST);
	tracefile_close(f);
	snprintf(link, sizeof(link), "%s-link", path);
	EXPECT_EQ(symlink("/tmp/heddle-nowhere", link), 0);
	EXPECT_EQ(tracefile_open(&other, link, 0), -EEXIST);
	EXPECT(access("/tmp/heddle-nowhere", F_OK) != 0);
	unlink(link);
	remove_trace();
}

/* ---- slices ---- */

static struct tracefile *out;

static void happens(uint64_t when, enum tracekind kind, uint64_t goid, uint32_t seq, uint8_t why)
{
	struct traceevent ev = { .when = when, .goid = goid, .seq = seq, .why = why };

	ev.kind = (uint8_t)kind;
	tracks_event(out, 7, &ev);
}

/* What was put since the last time. */
static const char *told(void)
{
	*out->to = 0;
	out->to = out->buf;
	return out->buf;
}

enum { PARKS = TRACE_PARK | WAIT_SLEEP };

static void begin(void)
{
	out = open_trace();
	tracks_begin(1000);
	happens(2000, TRACE_NEW, 5, 1, 0);
	happens(2000, TRACE_READY, 5, 2, 0);
	happens(3000, TRACE_RUN, 5, 3, 0);
	EXPECT(strstr(told(), "{\"ph\":\"X\",\"pid\":2,\"tid\":5,\"ts\":1.000,\"dur\":1.000,"
			      "\"name\":\"runnable\",\"args\":{\"by\":0}},\n") != NULL);
}

TEST(a_slice_lasts_from_run_to_stop)
{
	begin();
	happens(4500, TRACE_STOP, 5, 4, PARKS);
	const char *s = told();
	EXPECT(strstr(s, "{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":2.000,\"dur\":1.500,\"name\":"
			 "\"G 5\",\"args\":{\"g\":5,\"m\":7,\"end\":\"sleep\"}},\n") != NULL);
	EXPECT(strstr(s, "\"ts\":2.000,\"dur\":1.500,\"name\":\"running\"") != NULL);
	happens(9001, TRACE_READY, 5, 5, 0);
	EXPECT(strstr(told(), "\"ts\":3.500,\"dur\":4.501,\"name\":\"sleep\"") != NULL);
	remove_trace();
}

TEST(what_may_span_lost_events_is_left_out)
{
	begin();
	happens(4000, TRACE_STOP, 5, 4, PARKS);
	told();
	/* It was readied, ran and parked again, unseen. */
	happens(9000, TRACE_READY, 5, 8, 0);
	EXPECT_EQ(strlen(told()), 0);
	EXPECT_EQ(tracks_unsure(), 1);
	happens(9500, TRACE_RUN, 5, 9, 0);
	EXPECT(strstr(told(), "\"ts\":8.000,\"dur\":0.500,\"name\":\"runnable\"") != NULL);
	remove_trace();
}

/* A switch that is lost counts for the one that stops only. */
TEST(one_that_was_not_seen_to_run_does_not_stop)
{
	begin();
	happens(4000, TRACE_STOP, 5, 4, PARKS);
	happens(5000, TRACE_READY, 5, 5, 0);
	told();
	happens(9000, TRACE_STOP, 5, 6, PARKS);
	EXPECT_EQ(strlen(told()), 0);
	EXPECT_EQ(tracks_unsure(), 1);
	happens(9500, TRACE_READY, 5, 7, 0);
	EXPECT(strstr(told(), "\"ts\":8.000,\"dur\":0.500,\"name\":\"sleep\"") != NULL);
	remove_trace();
}

TEST(what_goes_on_is_told_each_time)
{
	begin();
	tracks_open(out, 8000, TRACEFILE_END);
	EXPECT(strstr(told(), "\"ts\":2.000,\"dur\":5.000,\"name\":\"running\",\"args\":{\"p\":0,"
			      "\"open\":true}},\n") != NULL);
	tracks_open(out, 9000, TRACEFILE_END);
	EXPECT(strstr(told(), "\"dur\":6.000,\"name\":\"running\"") != NULL);
	happens(9000, TRACE_STOP, 5, 4, POST_EXIT);
	told();
	tracks_open(out, 10000, TRACEFILE_END);
	EXPECT_EQ(strlen(told()), 0);
	remove_trace();
}

TEST(a_p_that_is_taken_ends_the_run_but_not_the_g)
{
	begin();
	happens(4000, TRACE_TAKEN, 5, 4, 1);
	EXPECT(strstr(told(), "\"end\":\"call\"") != NULL);
	happens(6000, TRACE_BACK, 5, 5, 0);
	EXPECT(strstr(told(), "\"ts\":3.000,\"dur\":2.000,\"name\":\"call\"") != NULL);
	happens(7000, TRACE_STOP, 5, 6, PARKS);
	EXPECT(strstr(told(), "\"back\":true,\"end\":\"sleep\"") != NULL);
	remove_trace();
}

/* Ten times as many as the table has room for at first, most of them ended again. */
TEST(many_gs_are_told_apart)
{
	enum { MANY = 10000 };

	out = open_trace();
	tracks_begin(0);
	for (uint64_t g = 1; g <= MANY; g++) {
		happens(g, TRACE_NEW, g, 1, 0);
		happens(g, TRACE_READY, g, 2, 0);
		happens(g + 1, TRACE_RUN, g, 3, 0);
		if (g % 8)
			happens(g + 2, TRACE_STOP, g, 4, POST_EXIT);
		out->to = out->buf;
	}
	for (uint64_t g = 8; g <= MANY; g += 8) {
		char wanted[64];
		happens(g + 1000, TRACE_STOP, g, 4, PARKS);
		snprintf(wanted, sizeof(wanted), "\"dur\":0.999,\"name\":\"G %d\"", (int)g);
		EXPECT(strstr(told(), wanted) != NULL);
	}
	EXPECT_EQ(tracks_unsure(), 0);
	remove_trace();
}

TEST(a_name_is_told_and_harmless)
{
	struct traceevent ev = { .when = 2000, .goid = 5, .kind = TRACE_NAME };

	begin();
	memcpy(&ev.arg, "a\"\\\nb\xff{", 8);
	tracks_event(out, 0, &ev);
	happens(4000, TRACE_STOP, 5, 4, PARKS);
	EXPECT(strstr(told(), "\"thread_name\",\"args\":{\"name\":\"G 5 a???b?{\"}}") != NULL);
	remove_trace();
}
