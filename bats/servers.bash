# Servers under load: how one is started natively and preloaded, loaded, watched and ended. What is done with each
# is in loads/: start and work, which compare below calls, and tests/apps too.
# The clients are always native. Read common.bash first.

# Of each load, of which there are four: the machine's speed changes, and both shall have the same of it. For figures,
# LOAD_SECONDS=10.
seconds=${LOAD_SECONDS:-1}

as_root() { [ "$(id -u)" -ne 0 ] || echo "$@"; }

# What is stored in the servers that store.
value=$(printf '%0200d' 7)

# One program that knows what each answer must be, byte by byte; see load below.
build_load() {
	gcc -O2 -Wall -x c - -o "$BATS_FILE_TMPDIR/load" -D_GNU_SOURCE <<'C'
/* load udp|tcp PORT CONNECTIONS SECONDS TURNS REQUEST ANSWER...: each connection sends the requests in turn, each
 * once the one before has its ANSWER, and begins anew; after so many TURNS it makes way for a new connection
 * (0: never). @ is the number of the connection, \xHH a byte. It ends with a whole turn of each.
 * Prints answers per second and turns. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
enum { MOST = 10, ROOM = 8192 };
struct text { int n; char at[ROOM]; };
static struct connection { int fd, step, turns, got; struct text say[2 * MOST]; } *all;
static int steps, type, set, live;
static struct sockaddr_in to = { .sin_family = AF_INET };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static void die(const char *what, struct connection *c, const char *got, int n)
{
	printf("connection %d, step %d, turn %d: %s (%s)", (int)(c - all), c->step, c->turns, what, strerror(errno));
	printf(": %.*s\n", n, got);
	exit(1);
}
static void fill(struct text *t, const char *from, int number)
{
	for (t->n = 0; *from != '\0'; from++)
		if (*from == '@')
			t->n += sprintf(t->at + t->n, "%04d", number);
		else if (from[0] == '\\' && from[1] == 'x')
			t->at[t->n++] = (char)strtol((char[]){ from[2], from[3], 0 }, NULL, 16), from += 3;
		else
			t->at[t->n++] = *from;
}
static void ask(struct connection *c)
{
	struct text *t = &c->say[2 * c->step];
	c->got = 0;
	if (send(c->fd, t->at, (size_t)t->n, MSG_NOSIGNAL) != t->n)
		die("send", c, "", 0);
}
static void begin(struct connection *c)
{
	c->fd = socket(AF_INET, type, 0);
	if (connect(c->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		die("connect", c, "", 0);
	epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &(struct epoll_event){ EPOLLIN, { .ptr = c } });
	ask(c);
}
int main(int argc, char **argv)
{
	int connections = atoi(argv[3]), turns = atoi(argv[5]);
	long answers = 0;
	type = strcmp(argv[1], "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM;
	to.sin_port = htons((unsigned short)atoi(argv[2]));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	steps = (argc - 6) / 2;
	all = calloc((size_t)connections, sizeof(*all));
	set = epoll_create1(0);
	for (live = 0; live < connections; live++) {
		for (int i = 0; i < 2 * steps; i++)
			fill(&all[live].say[i], argv[6 + i], live);
		begin(&all[live]);
	}
	double start = now(), end = start + atof(argv[4]);
	while (live > 0) {
		struct epoll_event e[64];
		int n = epoll_wait(set, e, 64, 10000);
		if (n == 0)
			for (struct connection *c = all; c < all + connections; c++)
				if (c->fd >= 0)
					die("no answer for 10 s", c, "", 0);
		for (int i = 0; i < n; i++) {
			struct connection *c = e[i].data.ptr;
			struct text *want = &c->say[2 * c->step + 1];
			char b[ROOM];
			int r = (int)recv(c->fd, b, sizeof(b), 0);
			if (r <= 0 || r > want->n - c->got || memcmp(b, want->at + c->got, (size_t)r) != 0)
				die("another answer", c, b, r);
			c->got += r;
			if (c->got < want->n)
				continue;
			answers++;
			c->step = (c->step + 1) % steps;
			if (c->step == 0) {
				c->turns++;
				if (now() >= end || (turns != 0 && c->turns % turns == 0)) {
					close(c->fd);
					c->fd = -1;
					if (now() >= end)
						live--;
					else
						begin(c);
					continue;
				}
			}
			ask(c);
		}
	}
	printf("%.0f %ld\n", (double)answers / (now() - start), answers / steps);
}
C
}

# load [as above, without SECONDS]: sets rate, and turns, what was answered in all.
load() {
	"$BATS_FILE_TMPDIR/load" "$1" "$2" "$3" "$seconds" "${@:4}" >"$work/load"
	read -r rate turns <"$work/load"
}

# fetch PORT CONNECTIONS FILE: GET of /f from many connections, every tenth of a name nobody has asked for;
# every body must be FILE. Sets rate.
fetch() {
	cat >"$work/fetch.lua" <<-'LUA'
		local all, n = {}, 0
		wrong = 0
		function init() local f = io.open(os.getenv("BODY"), "rb"); body = f:read("*a"); f:close() end
		function setup(thread) all[#all + 1] = thread end
		function request()
			n = n + 1
			return wrk.format("GET", n % 10 == 0 and "/f?" .. n or "/f")
		end
		function response(status, _, got) if status ~= 200 or got ~= body then wrong = wrong + 1 end end
		function done(sum)
			local e, bad = sum.errors, 0
			for _, t in ipairs(all) do bad = bad + t:get("wrong") end
			io.write(string.format("fetched %.0f %d\n", sum.requests / sum.duration * 1e6,
				bad + e.connect + e.read + e.write + e.status + e.timeout))
		end
	LUA
	# Who waits for two seconds has no wrong answer.
	BODY=$3 wrk --timeout 20s -t 1 -c "$2" -d "$seconds" -s "$work/fetch.lua" "http://127.0.0.1:$1/f" >"$work/load"
	local wrong
	read -r _ rate wrong < <(grep ^fetched "$work/load")
	[ "$wrong" -eq 0 ]
}

# free_port: sets port, out of those the kernel gives to no client.
free_port() {
	port=$((10000 + RANDOM % 20000))
	if (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then free_port; fi
}

# await PORT|PATH: until something listens there.
await() { comes listening "$1"; }
listening() { if [[ $1 == /* ]]; then listens "$1"; else (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; fi; }

# begin COMMAND...: in a session of its own, which teardown ends. Sets pid.
begin() {
	setsid "$@" 3>&- &
	pid=$!
	begun+=" $pid"
}

# serve COMMAND...: the program under test, natively or preloaded.
serve() { begin env "${preload[@]}" "$@" >"$run/log" 2>&1; }

# origin FILE: a native nginx that serves it as /f, and /1 to /60 from next to it. Sets origin, its port.
origin() {
	free_port
	origin=$port
	nginx_conf "$work/origin" "$port" "$1" ''
	begin nginx -p "$work/origin" -c conf >"$work/origin/log" 2>&1
	await "$port"
}

# nginx_conf DIRECTORY PORT FILE DIRECTIVES
nginx_conf() {
	mkdir -p "$1/t"
	cat >"$1/conf" <<-C
		daemon off; pid pid; error_log stderr; worker_processes 1;
		$([ "$(id -u)" -ne 0 ] || echo 'user root;')
		events { worker_connections 1000; }
		http {
			access_log off; keepalive_requests 100000000; client_body_temp_path t; proxy_temp_path t;
			fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; $4
			server { listen 127.0.0.1:$2; root ${3%/*}; location = /f { alias $3; } }
		}
	C
}

# family PID: it and its children.
family() { echo "$1" $(cat "/proc/$1/task/"*/children 2>/dev/null); }

# watch PID...: the most kernel threads seen in one of them, in $run/threads. Bats would look at each of its
# commands, and that is a load of its own.
watch() {
	trap - DEBUG
	local most=0 p all n nap
	exec {nap}<> <(:)
	while [ -e "/proc/$1/status" ]; do
		for p; do
			{ read -r -d '' all <"/proc/$p/status"; } 2>/dev/null || true
			all=${all#*Threads:?}
			n=${all%%[!0-9]*}
			((n <= most)) || echo "$n" >"$run/threads"
			((most = n > most ? n : most)) || true
		done
		read -r -t 0.01 -u "$nap" || true
	done
}

# watching PID: watches it until compare says so.
watching() {
	# shellcheck disable=SC2046  # words
	watch $(family "$1") 3>&- &
	watcher=$!
	comes "$watcher" test -s "$run/threads" 2>/dev/null || true
}

# cpu_ms PID: what it and its children have used.
cpu_ms() {
	# shellcheck disable=SC2046  # words
	cat $(printf '/proc/%s/stat\n' $(family "$1")) 2>/dev/null |
		sed 's/.*) //' | awk '{ t += $12 + $13 } END { print t * 10 }'
}

# finish: ends the program under test, if work has not; sets status, 137 if it does not end.
finish() {
	[ -n "$pid" ] || return 0
	(trap - DEBUG; exec {nap}<> <(:); read -r -t 60 -u "$nap" || kill -KILL "$pid") 3>&- >/dev/null 2>&1 &
	local guard=$!
	kill "$pid"
	status=0
	wait "$pid" || status=$?
	kill "$guard"
}

# compare NAME: start and work of the test, natively and under heddle. start calls serve; work, which comes twice,
# sets rate. Both find their files in $run, and a free $port.
compare() {
	local -A ports pids rates most ended
	local how ratio n alive
	for how in native heddle; do
		preload=()
		[ $how = native ] || preload=(GOMAXPROCS=2 "LD_PRELOAD=$heddle")
		# Names of one length: what the servers say of them is the same, numbers aside.
		run=$work/$how
		mkdir "$run"
		free_port
		pid=
		start
		ports[$how]=$port
		pids[$how]=$pid
		rates[$how]=0
		most[$how]=0
	done
	for how in native heddle heddle native; do
		preload=()
		[ $how = native ] || preload=(GOMAXPROCS=2 "LD_PRELOAD=$heddle")
		run=$work/$how
		port=${ports[$how]}
		pid=${pids[$how]}
		rm -f "$run/threads"
		[ -z "$pid" ] || watching "$pid"
		work
		kill "$watcher" 2>/dev/null || true
		echo "$how: $rate/s${pid:+, $(cpu_ms "$pid") ms of cpu so far}"
		rates[$how]=$((rates[$how] + rate))
		n=$(cat "$run/threads")
		most[$how]=$((n > most[$how] ? n : most[$how]))
	done
	for how in native heddle; do
		pid=${pids[$how]}
		finish
		ended[$how]=$status
		echo "$how: status $status"
		# That the disk was slow (redis) is nobody's doing.
		sed "/disk is busy/d; s/[0-9]//g; s/$how/HOW/g" "$work/$how/log" | sort -u >"$work/said-$how"
	done
	ratio=$(awk "BEGIN { printf \"%.2f\", ${rates[heddle]} / ${rates[native]} }")
	echo "# $1: native $((rates[native] / 2))/s, heddle $((rates[heddle] / 2))/s (ratio $ratio);" \
		"kernel threads at most ${most[native]} natively, ${most[heddle]} under heddle" >&3
	[ "${ended[heddle]}" -eq "${ended[native]}" ]
	# What it says under heddle, numbers aside, it says natively.
	comm -13 "$work/said-native" "$work/said-heddle" >"$work/said"
	cat "$work/said"
	[ ! -s "$work/said" ]
	# The figure is for who reads it: on two busy cpus no bound near 1 would hold. This one is for what stands still.
	awk "BEGIN { exit $ratio < 0.1 }"
	# Where there are few natively, heddle's own are more: the monitor, the starter, one for each P, one that is being
	# made, beside those that are in calls; and some whose call was over, and whose thread is in the next by another,
	# while the kernel has no cpu for them to go to sleep on: one on a quiet machine, and two of haproxy's four beside
	# another's compilations.
	n=$((most[native] > 16 ? most[native] : most[native] + 10))
	# And one is always there for signals.
	alive=$(sed -n 's/.* threads=\([0-9]*\) .*/\1/p' "$work/heddle/stats" 2>/dev/null | sort -n | tail -n 1)
	((n >= ${alive:-0} + 4)) || n=$((alive + 4))
	[ "${most[heddle]}" -le $n ]
}
