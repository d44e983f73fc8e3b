// C++20: threads, futures, shared locks, semaphores, latches, barriers, waits on atomics, stop tokens.
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>

#define MUST(c) ((c) ? (void)0 : (std::printf("line %d: not so: %s\n", __LINE__, #c), std::exit(1)))

static void futures()
{
	std::vector<std::future<long>> f;
	for (long i = 0; i < 60; i++)
		f.push_back(std::async(std::launch::async, [i] { return i * i; }));
	long sum = 0;
	for (auto &x : f)
		sum += x.get();
	MUST(sum == 70210);
	std::promise<int> p;
	std::jthread t([&] { p.set_exception(std::make_exception_ptr(7)); });
	try {
		p.get_future().get();
		MUST(false);
	} catch (int e) {
		MUST(e == 7);
	}
}

static void meetings()
{
	constexpr int team = 16, rounds = 200;
	std::atomic<int> done{0};
	bool whole = true;
	std::barrier all(team, [&]() noexcept { whole &= done % team == 0; });
	std::latch begun(team);
	std::counting_semaphore<> few(3);
	std::atomic<int> inside{0}, most{0};
	{
		std::vector<std::jthread> t;
		for (int i = 0; i < team; i++)
			t.emplace_back([&] {
				begun.arrive_and_wait();
				for (int r = 0; r < rounds; r++) {
					few.acquire();
					int now = ++inside;
					for (int m = most; now > m && !most.compare_exchange_weak(m, now);)
						;
					--inside;
					few.release();
					done++;
					all.arrive_and_wait();
				}
			});
	}
	MUST(whole && done == team * rounds && most <= 3);
}

static void shared()
{
	std::shared_mutex m;
	long a = 0, b = 0;
	std::atomic<bool> torn{false};
	{
		std::vector<std::jthread> t;
		for (int i = 0; i < 12; i++)
			t.emplace_back([&, i] {
				for (int k = 0; k < 3000; k++)
					if (i < 2) {
						std::unique_lock l(m);
						a++, b++;
					} else {
						std::shared_lock l(m);
						torn = torn || a != b;
					}
			});
	}
	MUST(!torn && a == 6000);
}

static void words()
{
	std::atomic<int> turn{0};
	{
		std::vector<std::jthread> t;
		for (int me = 0; me < 4; me++)
			t.emplace_back([&, me] {
				for (int r = 0; r < 1000; r++) {
					for (int now; (now = turn) % 4 != me;)
						turn.wait(now);
					turn++;
					turn.notify_all();
				}
			});
	}
	MUST(turn == 4000);
}

static void stopped()
{
	std::mutex m;
	std::condition_variable_any c;
	std::atomic<int> ended{0};
	{
		std::vector<std::jthread> t;
		for (int i = 0; i < 500; i++)
			t.emplace_back([&](std::stop_token s) {
				std::unique_lock l(m);
				c.wait(l, s, [] { return false; });
				ended++;
			});
	}
	MUST(ended == 500);
}

int main()
{
	futures();
	meetings();
	shared();
	words();
	stopped();
	std::puts("all good");
}
