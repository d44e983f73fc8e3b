/* The idle Ms, and how they sleep. Owns sched.midle, sched.nmidle and m.expects. */
#include "sched.h"

void mput_locked(struct m *mp)
{
	CHECK(GMP_M1, ld_rlx(&mp->p) == NULL && ld_rlx(&mp->curg) == NULL);
	mp->schedlink = sched.midle;
	sched.midle = mp;
	sched.nmidle++;
	st_rlx(&sched.full, false);
	st_rlx(&sched.orphans, false);
	checkdead_locked();
}

bool mtake_locked(struct m *mp)
{
	for (struct m **at = &sched.midle; *at; at = &(*at)->schedlink) {
		if (*at != mp)
			continue;
		*at = mp->schedlink;
		sched.nmidle--;
		mp->expects = false;
		return true;
	}
	return false;
}

/* Not one that expects its G, unless there is no other among the first. */
struct m *mget_locked(void)
{
	enum { LOOKS = 8 };
	struct m *mp = sched.midle;

	for (int i = 0; i < LOOKS && mp && mp->expects; i++)
		mp = mp->schedlink;
	if (!mp)
		mp = sched.midle;
	return mp && mtake_locked(mp) ? mp : NULL;
}

void mpark(struct m *mp)
{
	st_rlx(&mp->blocked, true);
	notesleep(&mp->park);
	noteclear(&mp->park);
	st_rlx(&sched.now, nanotime());
	st_rlx(&mp->blocked, false);
}

void mwait(struct m *mp)
{
	mpark(mp);
	acquirep(mp, mp->nextp);
	mp->nextp = NULL;
	count(mp->p, mstops);
	count(mp->p, mstarts);
}
