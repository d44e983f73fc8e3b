import java.util.concurrent.*;

/** Threads whose stacks overflow, which is a fault in a guard page and an error to be caught, while others fill the heap:
 * trees that live, rubbish that does not, and once more than there is room for. */
public class Pressure {
	static class Tree {
		final Tree left, right;
		final int[] leaf;
		Tree(int depth, int seed) {
			left = depth == 0 ? null : new Tree(depth - 1, 2 * seed);
			right = depth == 0 ? null : new Tree(depth - 1, 2 * seed + 1);
			leaf = depth == 0 ? new int[] {seed, ~seed} : null;
		}
		long sum() {
			if (leaf == null) return left.sum() + right.sum();
			if (leaf[1] != ~leaf[0]) throw new IllegalStateException("a leaf");
			return leaf[0];
		}
	}

	static int deeper(int n) { return n > 1 << 30 ? n : deeper(n + 1) + 1; }

	static long overflows() {
		long caught = 0;
		for (int i = 0; i < 12; i++)
			try {
				deeper(0);
			} catch (StackOverflowError e) {
				caught++;
				Thread.yield();
			}
		return caught;
	}

	static long fills(int me) {
		Tree lives = new Tree(12, 1);
		long before = lives.sum();
		for (int i = 0; i < 60; i++) {
			Tree passes = new Tree(10, 1);
			byte[][] rubbish = new byte[100][];
			for (int j = 0; j < rubbish.length; j++) rubbish[j] = new byte[4000 + me];
			if (passes.sum() != 1572352 || lives.sum() != before) return -1;
		}
		return before;
	}

	static boolean tooMuch() {
		try {
			long[][] all = new long[1000][];
			for (int i = 0; i < all.length; i++) all[i] = new long[1 << 20];
			return all[0][0] != 0;
		} catch (OutOfMemoryError e) {
			return true;
		}
	}

	public static void main(String[] args) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(16);
		Future<?>[] overflow = new Future<?>[8], fill = new Future<?>[8];
		for (int i = 0; i < 8; i++) {
			int me = i;
			overflow[i] = pool.submit(Pressure::overflows);
			fill[i] = pool.submit(() -> fills(me));
		}
		for (int i = 0; i < 8; i++)
			if (!overflow[i].get().equals(12L) || !fill[i].get().equals(25163776L)) {
				System.out.println("not so: " + overflow[i].get() + ", " + fill[i].get());
				System.exit(1);
			}
		pool.shutdown();
		System.out.println(tooMuch() ? "all good" : "there was room for too much");
	}
}
