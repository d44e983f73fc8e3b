// oneTBB: loops, reductions, sorting, tasks, pipelines, concurrent containers; Boost's threads: interruption, futures.
#define BOOST_THREAD_VERSION 4
#include <boost/thread.hpp>
#include <cstdio>
#include <cstdlib>
#include <tbb/tbb.h>
#include <vector>

#define MUST(c) ((c) ? (void)0 : (std::printf("line %d: not so: %s\n", __LINE__, #c), std::exit(1)))

static long fib(int n)
{
	if (n < 14)
		return n < 2 ? n : fib(n - 1) + fib(n - 2);
	long a, b;
	tbb::parallel_invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
	return a + b;
}

static void tasks()
{
	tbb::global_control six(tbb::global_control::max_allowed_parallelism, 6);
	std::vector<unsigned> v(1000000);
	tbb::parallel_for(size_t(0), v.size(), [&](size_t i) { v[i] = unsigned(i) * 2654435761u; });
	tbb::parallel_sort(v.begin(), v.end());
	MUST(std::is_sorted(v.begin(), v.end()));
	long sum = tbb::parallel_reduce(
		tbb::blocked_range<long>(0, 1000000), 0L,
		[](auto &r, long s) {
			for (long i = r.begin(); i != r.end(); i++)
				s += i & 7;
			return s;
		},
		std::plus<long>());
	MUST(sum == 3500000 && fib(25) == 75025);
	int next = 0, last = -1;
	bool ordered = true;
	tbb::parallel_pipeline(
		12, tbb::make_filter<void, int>(tbb::filter_mode::serial_in_order,
						[&](tbb::flow_control &f) { return next < 3000 ? next++ : (f.stop(), 0); }) &
			    tbb::make_filter<int, int>(tbb::filter_mode::parallel, [](int x) { return x * 2; }) &
			    tbb::make_filter<int, void>(tbb::filter_mode::serial_in_order, [&](int x) {
				    ordered &= x == last + (last < 0 ? 1 : 2);
				    last = x;
			    }));
	MUST(ordered && last == 5998);
	tbb::concurrent_hash_map<int, int> map;
	tbb::parallel_for(0, 20000, [&](int i) {
		tbb::concurrent_hash_map<int, int>::accessor a;
		map.insert(a, i % 50);
		a->second++;
	});
	for (auto &p : map)
		MUST(p.second == 400);
}

static void interrupted()
{
	boost::mutex m;
	boost::condition_variable c;
	int ended = 0;
	boost::thread_group g;
	std::vector<boost::thread *> all;
	for (int i = 0; i < 40; i++)
		all.push_back(g.create_thread([&] {
			boost::unique_lock<boost::mutex> l(m);
			try {
				for (;;)
					c.wait(l);
			} catch (boost::thread_interrupted &) {
				ended++;
			}
		}));
	for (auto *t : all)
		t->interrupt();
	g.join_all();
	MUST(ended == 40);
	boost::promise<int> p;
	auto f = p.get_future().then([](boost::future<int> x) { return x.get() + 1; });
	boost::thread t([&] { p.set_value(41); });
	MUST(f.get() == 42);
	t.join();
}

int main()
{
	tasks();
	interrupted();
	std::puts("all good");
}
