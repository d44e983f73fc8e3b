/* What stands of the states of Gs in the file, as slices.h has it. */
#include "slices.h"

#include "core.h"
#include "report.h"

enum { PROCESS_PS = 1, PROCESS_GS = 2 };

static uint64_t zero, arrows;
static uint64_t told_ps[MAX_PROCS / 64];

void slices_begin(uint64_t from)
{
	zero = from;
	arrows = 0;
	for (uint32_t i = 0; i < MAX_PROCS / 64; i++)
		told_ps[i] = 0;
}

static void put_name(struct tracefile *f, const struct track *t)
{
	put(f, "G ");
	put_number(f, t->goid);
	if (t->name[0])
		put(f, " ");
	put_text(f, t->name, TRACE_NAME_LEN);
}

static void put_track_name(struct tracefile *f, uint64_t process, uint64_t track)
{
	put(f, "{\"ph\":\"M\",\"pid\":");
	put_number(f, process);
	put(f, ",\"tid\":");
	put_number(f, track);
	put(f, ",\"name\":\"thread_name\",\"args\":{\"name\":\"");
}

static bool on_untold_p(const struct track *t)
{
	return t->state == RUNNING && !(told_ps[t->p / 64] >> t->p % 64 & 1);
}

bool untold_names(const struct track *t)
{
	return !t->told || on_untold_p(t);
}

void put_names(struct tracefile *f, struct track *t)
{
	if (!t->told) {
		t->told = true;
		put_track_name(f, PROCESS_GS, t->goid);
		put_name(f, t);
		put(f, "\"}},\n");
	}
	if (on_untold_p(t)) {
		told_ps[t->p / 64] |= (uint64_t)1 << t->p % 64;
		put_track_name(f, PROCESS_PS, t->p);
		put(f, "P ");
		put_number(f, t->p);
		put(f, "\"}},\n");
	}
}

static void put_span(struct tracefile *f, uint64_t track, uint64_t since, uint64_t until)
{
	put_number(f, track);
	put(f, ",\"ts\":");
	put_time(f, since - zero);
	put(f, ",\"dur\":");
	put_time(f, until - since);
	put(f, ",\"name\":\"");
}

static void put_word(struct tracefile *f, const char *word)
{
	while (*word)
		*f->to++ = *word++;
}

void put_run(struct tracefile *f, const struct track *t, uint64_t until, const char *end)
{
	put(f, "{\"ph\":\"X\",\"pid\":1,\"tid\":");
	put_span(f, t->p, t->since, until);
	put_name(f, t);
	put(f, "\",\"args\":{\"g\":");
	put_number(f, t->goid);
	put(f, ",\"m\":");
	put_number(f, t->mid);
	if (t->back)
		put(f, ",\"back\":true");
	if (end) {
		put(f, ",\"end\":\"");
		put_word(f, end);
		put(f, "\"}},\n");
	} else {
		put(f, ",\"open\":true}},\n");
	}
}

static void put_wait(struct tracefile *f, const struct track *t)
{
	bool fd = t->why == WAIT_READ || t->why == WAIT_WRITE;

	put_word(f, waitreason_name(t->why));
	put(f, "\",\"cat\":\"wait\",\"args\":{\"w\":");
	put_number(f, t->why);
	if (t->on != 0 && fd && (int32_t)t->on >= 0) {
		put(f, ",\"fd\":");
		put_number(f, t->on);
	} else if (t->on != 0 && !fd) {
		put(f, ",\"on\":\"");
		put_hex(f, t->on);
		put(f, "\"");
	}
}

void put_state(struct tracefile *f, const struct track *t, uint64_t until, bool open)
{
	put(f, "{\"ph\":\"X\",\"pid\":2,\"tid\":");
	put_span(f, t->goid, t->since, until);
	switch (t->state) {
	case RUNNING:
		put(f, "running\",\"args\":{\"p\":");
		put_number(f, t->p);
		break;
	case RUNNABLE:
		put(f, "runnable\",\"args\":{\"by\":");
		put_number(f, t->on);
		break;
	case WAITING:
		put_wait(f, t);
		break;
	case CALL:
		put(f, "call\",\"args\":{\"m\":");
		put_number(f, t->mid);
		break;
	default:
		put(f, "blocked\",\"args\":{\"m\":");
		put_number(f, t->mid);
	}
	if (open)
		put(f, ",\"open\":true");
	put(f, "}},\n");
}

void put_arrow(struct tracefile *f, uint32_t from, uint64_t then, uint32_t to, uint64_t now)
{
	put(f, "{\"ph\":\"s\",\"pid\":1,\"cat\":\"ready\",\"name\":\"ready\",\"id\":");
	put_number(f, ++arrows);
	put(f, ",\"tid\":");
	put_number(f, from);
	put(f, ",\"ts\":");
	put_time(f, then - zero);
	put(f, "},\n{\"ph\":\"f\",\"bp\":\"e\",\"pid\":1,\"cat\":\"ready\",\"name\":\"ready\","
	       "\"id\":");
	put_number(f, arrows);
	put(f, ",\"tid\":");
	put_number(f, to);
	put(f, ",\"ts\":");
	put_time(f, now - zero);
	put(f, "},\n");
}

void put_steal(struct tracefile *f, const struct traceevent *ev)
{
	put(f, "{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"name\":\"steal\",\"tid\":");
	put_number(f, ev->p);
	put(f, ",\"ts\":");
	put_time(f, ev->when - zero);
	put(f, ",\"args\":{\"g\":");
	put_number(f, ev->goid);
	put(f, ",\"from\":");
	put_number(f, ev->arg);
	put(f, "}},\n");
}
