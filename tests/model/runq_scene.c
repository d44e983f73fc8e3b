/* The scene of the runq scenarios: three Ps with rings of four, eight Gs. Each G has a plain
 * field, written before it is put: whoever gets it reads that, which is a data race unless
 * the queue ordered the two. Owns what was taken by whom. Read runq_scene.h first. */
#include "runq_scene.h"

#include <string.h>

struct p ps[PS];
struct g gs[GS];
struct g *took[PS][GS];
int ntook[PS];
int nput, nall;

void begin(uint32_t at)
{
	static const char *const pnames[] = { "p0", "p1", "p2" };

	stage_begin();
	memset(ps, 0, sizeof(ps));
	memset(gs, 0, sizeof(gs));
	memset(ntook, 0, sizeof(ntook));
	nput = 0;
	for (int i = 0; i < PS; i++) {
		ps[i].id = i;
		ps[i].runqhead = ps[i].runqtail = at;
		model_slots(ps[i].runq, sizeof(ps[i].runq));
		model_name(&ps[i], sizeof(ps[i]), "%s", pnames[i]);
		model_name(&ps[i].runqhead, 4, "%s.head", pnames[i]);
		model_name(&ps[i].runqtail, 4, "%s.tail", pnames[i]);
		model_name(&ps[i].runnext, 8, "%s.runnext", pnames[i]);
		for (int k = 0; k < RUNQ_SIZE; k++)
			model_name(&ps[i].runq[k], 8, "%s.runq[%d]", pnames[i], k);
	}
	for (int i = 0; i < GS; i++) {
		gs[i].status = GRUNNABLE;
		model_name(&gs[i], sizeof(gs[i]), "g%d", i);
	}
}

/* Puts the G of that number. */
void put(int i, bool next)
{
	gs[i].goid = 100 + (uint64_t)i;
	st_rlx(&gs[i].waitsince, 100 + (uint64_t)i);
	runqput(p0, &gs[i], next);
}

void keep(struct p *pp, struct g *gp)
{
	if (!gp)
		return;
	/* Relaxed: an old value here means that nothing ordered the put before us. */
	if (gp - gs >= nput) {
		EXPECT_EQ(gp->goid, 100 + (gp - gs));
		EXPECT_EQ(ld_rlx(&gp->waitsince), 100 + (gp - gs));
	}
	took[pp - ps][ntook[pp - ps]++] = gp;
}

void get(void)
{
	bool inherit;

	keep(p0, runqget(p0, &inherit));
}

void steal(struct p *pp, struct p *victim, bool next)
{
	keep(pp, runqsteal(pp, victim, next));
}

/* Each of the first n was taken once, or lies in one place. */
void all_there(int n)
{
	int seen[GS] = { 0 };

	for (int p = 0; p < PS; p++) {
		for (int i = 0; i < ntook[p]; i++)
			seen[took[p][i] - gs]++;
		EXPECT(ps[p].runqtail - ps[p].runqhead <= RUNQ_SIZE);
		for (uint32_t i = ps[p].runqhead; i != ps[p].runqtail; i++)
			seen[ps[p].runq[i % RUNQ_SIZE] - gs]++;
		if (ps[p].runnext)
			seen[ps[p].runnext - gs]++;
	}
	for (struct g *gp = sched.runq.head; gp; gp = gp->schedlink)
		seen[gp - gs]++;
	for (int i = 0; i < GS; i++)
		EXPECT_EQ(seen[i], i < n);
}

void steal_into_p1(void *arg)
{
	(void)arg;
	steal(p1, p0, false);
}

void steal_into_p2(void *arg)
{
	(void)arg;
	steal(p2, p0, false);
}

void steal_all_into_p1(void *arg)
{
	(void)arg;
	steal(p1, p0, true);
}

void steal_all_into_p2(void *arg)
{
	(void)arg;
	steal(p2, p0, true);
}

/* Before the threads start: p0 holds the first n Gs. */
void fill(int n)
{
	while (nput < n)
		runqput(p0, &gs[nput++], false);
}

void check(void)
{
	all_there(nall);
}
