import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

/** The JVM's threads: pools, fork and join, monitors, sleepers, interrupts, collections of garbage. */
public class Threads {
	static void must(boolean so, String what) {
		if (!so) {
			System.out.println("not so: " + what);
			System.exit(1);
		}
	}

	static class Sum extends RecursiveTask<Long> {
		final int from, to;
		Sum(int from, int to) { this.from = from; this.to = to; }
		protected Long compute() {
			if (to - from < 500) {
				long s = 0;
				for (int i = from; i < to; i++) s += i;
				return s;
			}
			Sum left = new Sum(from, (from + to) / 2), right = new Sum((from + to) / 2, to);
			left.fork();
			return right.compute() + left.join();
		}
	}

	static int turn;

	public static void main(String[] args) throws Exception {
		must(new ForkJoinPool(6).invoke(new Sum(0, 200000)) == 19999900000L, "fork and join");
		ExecutorService pool = Executors.newFixedThreadPool(12);
		List<Future<Integer>> results = new ArrayList<>();
		for (int i = 0; i < 150; i++) {
			int k = i;
			results.add(pool.submit(() -> {
				List<byte[]> rubbish = new ArrayList<>();
				for (int j = 0; j < 1000; j++) rubbish.add(new byte[200]);
				return rubbish.size() + k;
			}));
		}
		for (int i = 0; i < 150; i++) must(results.get(i).get() == 1000 + i, "the pool's result");
		pool.shutdown();
		must(pool.awaitTermination(60, TimeUnit.SECONDS), "the pool's end");
		Object monitor = new Object();
		Thread[] players = new Thread[5];
		for (int p = 0; p < 5; p++) {
			int me = p;
			players[p] = new Thread(() -> {
				for (int i = 0; i < 500; i++)
					synchronized (monitor) {
						try { while (turn % 5 != me) monitor.wait(); } catch (InterruptedException e) { return; }
						turn++;
						monitor.notifyAll();
					}
			});
			players[p].start();
		}
		for (Thread p : players) p.join();
		must(turn == 2500, "turns");
		AtomicInteger woken = new AtomicInteger();
		CountDownLatch gate = new CountDownLatch(1);
		List<Thread> sleepers = new ArrayList<>();
		for (int i = 0; i < 300; i++) {
			Thread t = new Thread(() -> {
				try { gate.await(); Thread.sleep(10); } catch (InterruptedException e) { return; }
				woken.incrementAndGet();
			});
			t.start();
			sleepers.add(t);
		}
		System.gc();
		gate.countDown();
		for (Thread t : sleepers) t.join();
		must(woken.get() == 300, "sleepers");
		Thread late = new Thread(() -> { try { Thread.sleep(1000000); } catch (InterruptedException e) { woken.set(1); } });
		late.start();
		late.interrupt();
		late.join();
		must(woken.get() == 1, "the interrupt");
		int nulls = 0;
		for (int i = 0; i < 200; i++) try { ((Object) (i % 2 == 0 ? null : "")).hashCode(); } catch (NullPointerException e) { nulls++; }
		must(nulls == 100, "faults that are exceptions");
		System.out.println("all good");
	}
}
