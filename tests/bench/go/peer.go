// The rows of `make bench` as one writes them in Go: a goroutine for each thread, the same locks, the same
// work, and a figure in the same unit. `peer PROGRAM ROW [ARGUMENT...]`. Semaphores are channels; measuring is
// ../bench.c's.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func must(ok bool, what string) {
	if !ok {
		fmt.Fprintln(os.Stderr, "not so:", what)
		os.Exit(1)
	}
}

func figure(v float64, unit string) { fmt.Printf("%.6g %s\n", v, unit) }

// team runs fn on n goroutines that start together: the time from the first one's start to the last one's end.
func team(n int, fn func(i, ops int), ops int) time.Duration {
	start := make(chan struct{})
	begin, end := make([]time.Time, n), make([]time.Time, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	done.Add(n)
	for i := 0; i < n; i++ {
		go func(i int) {
			ready.Done()
			<-start
			begin[i] = time.Now()
			fn(i, ops)
			end[i] = time.Now()
			done.Done()
		}(i)
	}
	ready.Wait()
	close(start)
	done.Wait()
	first, last := begin[0], end[0]
	for i := range begin {
		if begin[i].Before(first) {
			first = begin[i]
		}
		if end[i].After(last) {
			last = end[i]
		}
	}
	return last.Sub(first)
}

// ---- threads ----

func createJoin(n int) time.Duration {
	t0 := time.Now()
	for i := 0; i < n; i++ {
		done := make(chan int, 1)
		go func(i int) { done <- i }(i)
		must(<-done == i, "the goroutine's result")
	}
	return time.Since(t0)
}

func createJoinBatch(n int) time.Duration {
	const batch = 1000
	var result [batch]int
	t0 := time.Now()
	for done := 0; done < n; done += batch {
		var wg sync.WaitGroup
		wg.Add(batch)
		for i := 0; i < batch; i++ {
			go func(i int) {
				result[i] = i
				wg.Done()
			}(i)
		}
		wg.Wait()
		for i := range result {
			must(result[i] == i, "the goroutine's result")
		}
	}
	return time.Since(t0)
}

func yields(_, n int) {
	for ; n > 0; n-- {
		runtime.Gosched()
	}
}

func steals(_, n int) {
	for ; n > 0; n-- {
		c := make(chan struct{})
		go func() { c <- struct{}{} }()
		<-c
	}
}

// ---- waits ----

func pingpong(n int, turned [2]*sync.Cond, lock *sync.Mutex, wake func(*sync.Cond)) time.Duration {
	turns := 0
	d := team(2, func(me, n int) {
		lock.Lock()
		for i := 0; i < n; i++ {
			for turns%2 != me {
				turned[me].Wait()
			}
			turns++
			wake(turned[1-me])
		}
		lock.Unlock()
	}, n)
	must(turns == 2*n, "turns")
	return d
}

func pingpongCond(n int) time.Duration {
	var lock sync.Mutex
	return pingpong(n, [2]*sync.Cond{sync.NewCond(&lock), sync.NewCond(&lock)}, &lock, (*sync.Cond).Signal)
}

var sleeper sync.Once

func pingpongSleeper(n int) time.Duration {
	sleeper.Do(func() { go time.Sleep(1000000 * time.Second) })
	return pingpongCond(n)
}

func pingpongBroadcast(n int) time.Duration {
	var lock sync.Mutex
	c := sync.NewCond(&lock)
	return pingpong(n, [2]*sync.Cond{c, c}, &lock, (*sync.Cond).Broadcast)
}

func pingpongSem(n int) time.Duration {
	turns := 0
	sem := [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
	sem[0] <- struct{}{}
	d := team(2, func(me, n int) {
		for i := 0; i < n; i++ {
			<-sem[me]
			turns++
			sem[1-me] <- struct{}{}
		}
	}, n)
	must(turns == 2*n, "turns")
	return d
}

func work(n int) uint64 {
	x := uint64(1)
	for ; n > 0; n-- {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

func barrier64(args []string) {
	const members, workNs, rounds, calibrate = 64, 86000, 2000, 100000
	cpus, _ := strconv.Atoi(args[0])
	best := time.Hour
	for i := 0; i < 50; i++ {
		t0 := time.Now()
		sink += work(calibrate)
		if d := time.Since(t0); d < best {
			best = d
		}
	}
	share := workNs * calibrate / members / int(best)
	var lock sync.Mutex
	open := sync.NewCond(&lock)
	there, round := 0, 0
	d := team(members, func(_, n int) {
		s := uint64(0)
		for i := 0; i < n; i++ {
			s += work(share)
			lock.Lock()
			there++
			if there == members {
				there = 0
				round++
				open.Broadcast()
			} else {
				for mine := round; mine == round; {
					open.Wait()
				}
			}
			lock.Unlock()
		}
		atomic.AddUint64(&sink, s)
	}, rounds)
	must(round == rounds, "rounds")
	figure(float64(d)/rounds-workNs/float64(cpus), "ns")
}

var sink uint64

func queue(n int) time.Duration {
	const side, room = 4, 64
	var lock sync.Mutex
	notFull, notEmpty := sync.NewCond(&lock), sync.NewCond(&lock)
	var ring [room]int
	var head, tail, sum int
	d := team(2*side, func(i, n int) {
		mine := 0
		for k := 0; k < n/side; k++ {
			lock.Lock()
			if i < side {
				for tail-head == room {
					notFull.Wait()
				}
				ring[tail%room] = k + 1
				tail++
				notEmpty.Signal()
			} else {
				for tail == head {
					notEmpty.Wait()
				}
				mine += ring[head%room]
				head++
				notFull.Signal()
			}
			lock.Unlock()
		}
		lock.Lock()
		sum += mine
		lock.Unlock()
	}, n)
	each := n / side
	must(head == n && tail == n && sum == side*(each*(each+1)/2), "what was taken")
	return d
}

// ---- locks ----

var (
	mutex  sync.Mutex
	rwlock sync.RWMutex
	count  int
)

func freeMutex(n int) time.Duration {
	t0 := time.Now()
	for i := 0; i < n; i++ {
		mutex.Lock()
		mutex.Unlock()
	}
	return time.Since(t0)
}

func freeRdlock(n int) time.Duration {
	t0 := time.Now()
	for i := 0; i < n; i++ {
		rwlock.RLock()
		rwlock.RUnlock()
	}
	return time.Since(t0)
}

func freeWrlock(n int) time.Duration {
	t0 := time.Now()
	for i := 0; i < n; i++ {
		rwlock.Lock()
		rwlock.Unlock()
	}
	return time.Since(t0)
}

func freeSem(n int) time.Duration {
	sem := make(chan struct{}, 1)
	sem <- struct{}{}
	t0 := time.Now()
	for i := 0; i < n; i++ {
		<-sem
		sem <- struct{}{}
	}
	return time.Since(t0)
}

func locked(_, n int) {
	for ; n > 0; n-- {
		mutex.Lock()
		count++
		mutex.Unlock()
	}
}

func contended(threads int) func(int) time.Duration {
	return func(n int) time.Duration {
		count = 0
		d := team(threads, locked, n/threads)
		must(count == n, "the count")
		return d
	}
}

func rwlock64(n int) time.Duration {
	twin, writes := 0, 0
	count = 0
	for i := 0; i < 64; i++ {
		writes += (n/64 + i) / 100
	}
	d := team(64, func(i, n int) {
		for k := i; k < n+i; k++ {
			if k%100 == 99 {
				rwlock.Lock()
				count++
				twin++
				rwlock.Unlock()
			} else {
				rwlock.RLock()
				must(count == twin, "twins")
				rwlock.RUnlock()
			}
		}
	}, n/64)
	must(count == writes && twin == writes, "the count")
	return d
}

// ---- pipes ----

func bounce(in, out [2]*os.File, n int) time.Duration {
	return team(2, func(me, n int) {
		var c [1]byte
		for i := 0; i < n; i++ {
			if me == 0 {
				put(out[me], byte(i))
			}
			k, err := in[me].Read(c[:])
			must(err == nil && k == 1 && c[0] == byte(i), "the byte that was read")
			if me == 1 {
				put(out[me], byte(i))
			}
		}
	}, n)
}

func put(f *os.File, b byte) {
	c := [1]byte{b}
	k, err := f.Write(c[:])
	must(err == nil && k == 1, "the byte was written")
}

func pipes(n int) time.Duration {
	thereR, thereW, err := os.Pipe()
	backR, backW, err2 := os.Pipe()
	must(err == nil && err2 == nil, "pipes")
	d := bounce([2]*os.File{backR, thereR}, [2]*os.File{thereW, backW}, n)
	for _, f := range []*os.File{thereR, thereW, backR, backW} {
		f.Close()
	}
	return d
}

func socketpair(n int) time.Duration {
	fd, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	must(err == nil, "socketpair")
	f := [2]*os.File{os.NewFile(uintptr(fd[0]), "0"), os.NewFile(uintptr(fd[1]), "1")}
	d := bounce(f, f, n)
	f[0].Close()
	f[1].Close()
	return d
}

// A process of its own, that asks and waits for each answer, by calls that block.
func client(args []string) {
	n, err := strconv.Atoi(args[0])
	must(err == nil, "a number")
	var c [1]byte
	for i := 0; i < n; i++ {
		c[0] = byte(i)
		k, err := syscall.Write(3, c[:])
		must(err == nil && k == 1, "the byte was written")
		k, err = syscall.Read(3, c[:])
		must(err == nil && k == 1 && c[0] == byte(i), "the byte that was read")
	}
}

func answer(n int) time.Duration {
	fd, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(err == nil && syscall.SetNonblock(fd[0], true) == nil, "socketpair")
	f, theirs := os.NewFile(uintptr(fd[0]), "0"), os.NewFile(uintptr(fd[1]), "1")
	cmd := exec.Command("/proc/self/exe", "pipes", "client", strconv.Itoa(n))
	cmd.ExtraFiles = []*os.File{theirs}
	must(cmd.Start() == nil, "the client")
	theirs.Close()
	var c [1]byte
	// The first one apart: what it takes to start the client is no part of the figure.
	k, err := f.Read(c[:])
	must(err == nil && k == 1, "the byte was read")
	put(f, c[0])
	d := team(1, func(me, n int) {
		var c [1]byte
		for i := 1; i < n; i++ {
			k, err := f.Read(c[:])
			must(err == nil && k == 1, "the byte was read")
			put(f, c[0])
		}
	}, n)
	must(cmd.Wait() == nil, "the client's end")
	f.Close()
	return d
}

func readZero(n int) time.Duration {
	f, err := os.Open("/dev/zero")
	must(err == nil, "open")
	var c [1]byte
	t0 := time.Now()
	for i := 0; i < n; i++ {
		k, err := f.Read(c[:])
		must(err == nil && k == 1 && c[0] == 0, "a zero")
	}
	d := time.Since(t0)
	f.Close()
	return d
}

// ---- compute ----

func crowd([]string) {
	const threads, steps = 16, 24000000
	var result [threads]uint64
	var wg sync.WaitGroup
	t0 := time.Now()
	wg.Add(threads)
	for i := range result {
		go func(i int) {
			result[i] = work(steps)
			wg.Done()
		}(i)
	}
	wg.Wait()
	d := time.Since(t0)
	for _, r := range result {
		must(r == result[0], "the result")
	}
	figure(float64(d)/1e6, "ms")
}

func mixed([]string) {
	const times = 60
	right := work(1000000)
	t0 := time.Now()
	for i := 0; i < times; i++ {
		var wg sync.WaitGroup
		wg.Add(2)
		var found uint64
		go func() {
			found = work(1000000)
			wg.Done()
		}()
		go func() {
			time.Sleep(5 * time.Millisecond)
			wg.Done()
		}()
		wg.Wait()
		must(found == right, "the result")
	}
	figure(float64(time.Since(t0))/1e6/times, "ms")
}

type hog struct {
	work uint64
	_    [120]byte
}

var (
	hogs [8]hog
	stop int32
)

func startHogs(n int, done *sync.WaitGroup) {
	done.Add(n)
	for i := 0; i < n; i++ {
		go func(h *hog) {
			s := uint64(0)
			for atomic.LoadInt32(&stop) == 0 {
				s += work(1000)
				atomic.AddUint64(&h.work, 1)
			}
			atomic.AddUint64(&sink, s)
			done.Done()
		}(&hogs[i])
	}
}

func fairness([]string) {
	var done sync.WaitGroup
	startHogs(8, &done)
	time.Sleep(2 * time.Second)
	var all []float64
	for i := range hogs {
		all = append(all, float64(atomic.LoadUint64(&hogs[i].work)))
	}
	atomic.StoreInt32(&stop, 1)
	done.Wait()
	sort.Float64s(all)
	figure(all[0]/all[7], "of-most")
}

func lateness([]string) {
	const sleeps = 200
	var done sync.WaitGroup
	var late []float64
	startHogs(1, &done)
	slept := make(chan struct{})
	go func() {
		for i := 0; i < sleeps; i++ {
			t0 := time.Now()
			time.Sleep(time.Millisecond)
			late = append(late, float64(time.Since(t0)-time.Millisecond)/1e3)
		}
		close(slept)
	}()
	<-slept
	atomic.StoreInt32(&stop, 1)
	done.Wait()
	sort.Float64s(late)
	figure(late[sleeps/2], "µs")
	figure(late[sleeps-1-sleeps/100], "µs")
}

// ---- parked ----

type gate struct {
	lock           sync.Mutex
	open, allThere *sync.Cond
	there, wanted  int
	opened         bool
	done           sync.WaitGroup
}

func (g *gate) wait() {
	g.lock.Lock()
	g.there++
	if g.there == g.wanted {
		g.allThere.Signal()
	}
	for !g.opened {
		g.open.Wait()
	}
	g.lock.Unlock()
	g.done.Done()
}

func fill(n int) *gate {
	g := &gate{wanted: n}
	g.open, g.allThere = sync.NewCond(&g.lock), sync.NewCond(&g.lock)
	g.done.Add(n)
	for i := 0; i < n; i++ {
		go g.wait()
	}
	g.lock.Lock()
	for g.there < n {
		g.allThere.Wait()
	}
	g.lock.Unlock()
	return g
}

func (g *gate) empty() {
	g.lock.Lock()
	g.opened = true
	g.open.Broadcast()
	g.lock.Unlock()
	g.done.Wait()
}

func number(args []string) int {
	must(len(args) > 0, "a number")
	n, err := strconv.Atoi(args[0])
	must(err == nil && n > 0, "a number")
	return n
}

func parkedCreate(args []string) {
	n := number(args)
	t0 := time.Now()
	g := fill(n)
	d := time.Since(t0)
	g.empty()
	figure(float64(d)/1e3/float64(n), "µs")
}

func available() float64 {
	var kib float64
	text, err := os.ReadFile("/proc/meminfo")
	must(err == nil, "/proc/meminfo")
	for at := 0; at+13 < len(text); at++ {
		if string(text[at:at+13]) == "MemAvailable:" {
			fmt.Sscanf(string(text[at+13:]), "%f", &kib)
			return kib
		}
	}
	must(false, "MemAvailable")
	return 0
}

func parkedMemory(args []string) {
	n := number(args)
	now := available()
	for i := 0; i < 15; i++ {
		last := now
		time.Sleep(200 * time.Millisecond)
		if now = available(); now-last < 4096 {
			break
		}
	}
	g := fill(n)
	time.Sleep(50 * time.Millisecond)
	after := available()
	g.empty()
	figure((now-after)/float64(n), "KiB")
}

// ---- growth ----

func grown(args []string, all int, fn func(i, n int)) {
	threads := number(args)
	n := all / threads
	if n == 0 {
		n = 1
	}
	team(threads, fn, 1)
	figure(float64(team(threads, fn, n))/float64(n*threads), "ns")
}

func growCreate(args []string) {
	threads := number(args)
	rounds := 50000/threads + 1
	var d time.Duration
	for r := 0; r <= rounds; r++ {
		var wg sync.WaitGroup
		wg.Add(threads)
		t0 := time.Now()
		for i := 0; i < threads; i++ {
			go wg.Done()
		}
		wg.Wait()
		if r > 0 {
			d += time.Since(t0)
		}
	}
	figure(float64(d)/float64(rounds*threads), "ns")
}

func growRing(args []string) {
	threads := number(args)
	turn := make([]chan struct{}, threads)
	for i := range turn {
		turn[i] = make(chan struct{}, 1)
	}
	turn[0] <- struct{}{}
	grown(args, 100000, func(i, n int) {
		for ; n > 0; n-- {
			<-turn[i]
			turn[(i+1)%threads] <- struct{}{}
		}
	})
}

func growPipe(args []string) {
	const bytes = 20000
	g := fill(number(args))
	pipes(256)
	figure(float64(pipes(bytes))/bytes, "ns")
	g.empty()
}

// ---- which ----

// How many operations make 0.2 s; then they are measured.
func timed(multiple int, fn func(n int) time.Duration) func([]string) {
	return func([]string) {
		n := multiple
		for {
			d, again := fn(n), fn(n)
			if again < d {
				d = again
			}
			more := 200e6 / float64(d+1)
			if more > 50 {
				more = 50
			}
			if more > 1 {
				n = int(float64(n)*more)/multiple*multiple + multiple
			}
			if d >= 10*time.Millisecond {
				break
			}
		}
		figure(float64(fn(n))/float64(n), "ns")
	}
}

func teamed(threads int, fn func(i, n int)) func([]string) {
	return timed(threads, func(n int) time.Duration { return team(threads, fn, n/threads) })
}

var rows = map[string]func([]string){
	"threads create-join":      timed(1, createJoin),
	"threads create-join-1000": timed(1000, createJoinBatch),
	"threads yield-2":          teamed(2, yields),
	"threads yield-100":        teamed(100, yields),
	"threads steal":            teamed(2, steals),
	"waits pingpong-cond":      timed(1, pingpongCond),
	"waits pingpong-sleeper":   timed(1, pingpongSleeper),
	"waits pingpong-broadcast": timed(1, pingpongBroadcast),
	"waits pingpong-sem":       timed(1, pingpongSem),
	"waits barrier-64":         barrier64,
	"waits queue-4+4":          timed(4, queue),
	"locks mutex-threaded":     timed(1, freeMutex),
	"locks rdlock-threaded":    timed(1, freeRdlock),
	"locks wrlock-threaded":    timed(1, freeWrlock),
	"locks sem-threaded":       timed(1, freeSem),
	"locks mutex-2":            timed(2, contended(2)),
	"locks mutex-64":           timed(64, contended(64)),
	"locks mutex-1000":         timed(1000, contended(1000)),
	"locks rwlock-64":          timed(64, rwlock64),
	"pipes pipe":               timed(1, pipes),
	"pipes socketpair":         timed(1, socketpair),
	"pipes answer":             timed(1, answer),
	"pipes client":             client,
	"pipes read-zero":          timed(1, readZero),
	"compute crowd-16":         crowd,
	"compute mixed":            mixed,
	"compute fairness-8":       fairness,
	"compute lateness":         lateness,
	"parked create":            parkedCreate,
	"parked memory":            parkedMemory,
	"growth create":            growCreate,
	"growth yield":             func(a []string) { grown(a, 1000000, yields) },
	"growth ring":              growRing,
	"growth mutex":             func(a []string) { grown(a, 2000000, locked) },
	"growth pipe":              growPipe,
}

func main() {
	if len(os.Args) >= 3 {
		if fn := rows[os.Args[1]+" "+os.Args[2]]; fn != nil {
			fn(os.Args[3:])
			return
		}
	}
	fmt.Fprintln(os.Stderr, "no such row:", os.Args[1:])
	os.Exit(2)
}
