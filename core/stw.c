/* Stop-the-world and the number of Ps. Owns sched.allp, gomaxprocs and the handshake by
 * which every P comes to a stop. */
#include "core.h"
#include "sched.h"

enum { EINVAL_ = 22, ENOMEM_ = 12, STOP_POLL_NS = 100 * 1000 };

void pstopped_locked(struct p *pp)
{
	st_rlx(&pp->status, PGCSTOP);
	sched.stopwait--;
	if (sched.stopwait == 0)
		notewakeup(&sched.stopnote);
}

void gcstopm(struct m *mp)
{
	struct p *pp;

	if (mp->spinning) {
		int32_t before;
		st_rlx(&mp->spinning, false);
		before = add_sc(&sched.nmspinning, -1);
		CHECK(WS_I6, before > 0);
	}
	/* What it was about to run must not wait for this M's return. */
	if (mp->pendingg) {
		runqput(mp->p, mp->pendingg, false);
		mp->pendingg = NULL;
	}
	pp = releasep(mp);
	lock(&sched.lock);
	CHECK(GMP_P4, ld_rlx(&sched.gcwaiting) != 0 && sched.stopwait > 0);
	pstopped_locked(pp);
	unlock(&sched.lock);
	stopm(mp);
}

static void stoptheworld(struct m *mp)
{
	struct p *pp;
	int32_t n = ld_rlx(&sched.gomaxprocs);
	bool wait;

	lock(&sched.lock);
	noteclear(&sched.stopnote);
	sched.stopwait = n;
	st_sc(&sched.gcwaiting, 1);
	st_rlx(&ld_rlx(&mp->p)->status, PGCSTOP);
	sched.stopwait--;
	while ((pp = pidleget_locked()) != NULL) {
		st_rlx(&pp->status, PGCSTOP);
		sched.stopwait--;
	}
	wait = sched.stopwait > 0;
	unlock(&sched.lock);
	while (wait) {
		for (int32_t i = 0; i < n; i++) {
			pp = sched.allp[i];
			if (pp != ld_rlx(&mp->p))
				retakesyscall(pp);
		}
		/* Those that run or are blocked are sysmon's. */
		notewakeup(&sched.sysmonnote);
		wait = !notetsleep(&sched.stopnote, STOP_POLL_NS);
	}
}

static void starttheworld(struct p *withwork)
{
	wakesysmon();
	while (withwork) {
		struct p *pp = withwork;
		withwork = pp->link;
		pp->link = NULL;
		startm(pp, false);
	}
	/* There may be more work than these Ps saw. */
	wakep(NULL);
}

static struct p *newp(int32_t id)
{
	struct p *pp = os_reserve(sizeof(struct p));

	if (os_failed(pp))
		return NULL;
	pp->id = id;
	pp->status = PDEAD;
	if (timers_init(&pp->timers, id) < 0) {
		os_release(pp, sizeof(*pp));
		return NULL;
	}
	return pp;
}

/* Makes sure that there are n P structs; those made stay, for there is no harm in them. */
static int makeps(int n)
{
	for (int32_t i = 0; i < n; i++) {
		if (sched.allp[i])
			continue;
		struct p *pp = newp(i);
		if (!pp)
			return -ENOMEM_;
		/* Release: readers of allp see a whole P. */
		st_rel(&sched.allp[i], pp);
	}
	return 0;
}

/* The timers of the Ps that will be dead, to the P that mp will have. */
static int movetimers(struct m *mp, int n)
{
	struct p *mine = ld_rlx(&mp->p);
	int32_t old = ld_rlx(&sched.gomaxprocs);
	uint32_t more = 0;
	int r;

	if (mine->id >= n)
		mine = sched.allp[0];
	for (int32_t i = n; i < old; i++)
		more += timers_count(&sched.allp[i]->timers);
	r = timers_reserve(&mine->timers, more);
	for (int32_t i = n; i < old && r == 0; i++)
		timers_move(&sched.allp[i]->timers, &mine->timers);
	return r;
}

/* P5. Its Gs and timers live on elsewhere. */
static void destroyp_locked(struct p *pp)
{
	runqdrain_locked(pp);
	gfree_purge(pp);
	st_rlx(&pp->status, PDEAD);
}

/* The world is stopped, mp runs this and keeps a P. */
static struct p *procresize_locked(struct m *mp, int n)
{
	int32_t old = ld_rlx(&sched.gomaxprocs);
	struct p *withwork = NULL, *mine = ld_rlx(&mp->p);

	CHECK(GMP_P4, !mine || ld_rlx(&mine->status) == PGCSTOP);
	if (!mine || mine->id >= n) {
		if (mine)
			st_rlx(&mine->m, NULL);
		st_rlx(&mp->p, NULL);
		mine = sched.allp[0];
		st_rlx(&mine->status, PIDLE);
		acquirep(mp, mine);
	} else {
		st_rlx(&mine->status, PRUNNING);
	}
	for (int32_t i = n; i < old; i++)
		destroyp_locked(sched.allp[i]);
	/* Release: pairs with the acquire of those who then read so many of allp. */
	st_rel(&sched.gomaxprocs, n);
	for (int32_t i = n - 1; i >= 0; i--) {
		struct p *pp = sched.allp[i];
		if (pp == mine)
			continue;
		st_rlx(&pp->status, PIDLE);
		if (runqempty(pp)) {
			pidleput_locked(pp);
		} else {
			pp->link = withwork;
			withwork = pp;
		}
	}
	or_sc(&sched.timerpmask[mine->id / 64], (uint64_t)1 << (mine->id % 64));
	return withwork;
}

void procs_undo(struct m *mp)
{
	for (int32_t i = 0; i < MAX_PROCS && sched.allp[i]; i++) {
		timers_free(&sched.allp[i]->timers);
		os_release(sched.allp[i], sizeof(struct p));
	}
	os_release(sched.allp, MAX_PROCS * sizeof(struct p *));
	st_rlx(&mp->p, NULL);
}

int procs_init(struct m *mp, int n)
{
	int r;

	sched.allp = os_reserve(MAX_PROCS * sizeof(struct p *));
	if (os_failed(sched.allp))
		return -ENOMEM_;
	r = makeps(n);
	if (r < 0) {
		procs_undo(mp);
		return r;
	}
	lock(&sched.lock);
	procresize_locked(mp, n);
	unlock(&sched.lock);
	return 0;
}

int core_procs(void)
{
	return ld_rlx(&sched.gomaxprocs);
}

/* To n Ps; 0: as many as there are, and the dead Gs of each go to the common list. */
static int resize(int n)
{
	struct g *gp = getg();
	bool gather = n == 0;
	struct p *withwork;
	struct m *mp;
	int r;

	/* One at a time; the loser must be able to stop for the winner. */
	while (mp = pin(gp), !trylock(&sched.stoplock)) {
		unpin(gp);
		gosched();
	}
	if (gather)
		n = ld_rlx(&sched.gomaxprocs);
	r = makeps(n);
	if (r == 0) {
		stoptheworld(mp);
		for (int i = 0; gather && i < n; i++)
			gfree_purge(sched.allp[i]);
		r = movetimers(mp, n);
		lock(&sched.lock);
		withwork = procresize_locked(mp, r == 0 ? n : ld_rlx(&sched.gomaxprocs));
		/* GMP_P4: in the same stay in the lock that made Ps idle. Else
		 *   procresize puts P1 on the idle list
		 *                                an M takes P1, still sees gcwaiting, stops P1
		 *   gcwaiting = 0                and nobody ever starts P1 again. */
		st_sc(&sched.gcwaiting, 0);
		unlock(&sched.lock);
		starttheworld(withwork);
	}
	unlock(&sched.stoplock);
	unpin(gp);
	return r;
}

int core_setprocs(int n)
{
	return n < 1 || n > MAX_PROCS ? -EINVAL_ : resize(n);
}

void ggather(void)
{
	resize(0);
}
