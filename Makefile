# heddle: see README.md. Everything is built into build/; nothing else is written.
CC ?= gcc
BUILD ?= build
ARCH := x86_64
PREFIX ?= /usr/local
# make V=1 shows the commands.
Q := $(if $(V),,@)

# Constants are enumerators, also where floating-point numbers are multiplied by them.
WARN := -Wall -Wextra -Wundef -Wshadow -Wconversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -Wno-enum-float-conversion -Werror
BASE := -std=gnu11 -g -D_GNU_SOURCE $(WARN) -fvisibility=hidden -fno-stack-protector -fno-omit-frame-pointer \
	-fno-plt -fPIC -iquote core -iquote core/arch/$(ARCH) -MMD -MP

# A variant of the core is a choice of twins (folders of same-named files) and of flags.
VARIANTS := release notrace unpoliced debug tsan asan
twins = $(addprefix -iquote core/,$(1))
FLAGS_release := -O2 $(call twins,release tracing policed san/none)
FLAGS_notrace := -O2 $(call twins,release notrace policed san/none)
FLAGS_unpoliced := -O2 $(call twins,release tracing unpoliced san/none)
FLAGS_debug := -O1 $(call twins,debug tracing policed san/none)
FLAGS_tsan := -O1 -fsanitize=thread $(call twins,debug tracing policed san/tsan)
FLAGS_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
	$(call twins,debug tracing policed san/asan)
TWIN_release := core/release/debug.c $(wildcard core/tracing/*.c)
TWIN_notrace := core/release/debug.c $(wildcard core/notrace/*.c)
TWIN_unpoliced := $(TWIN_release)
TWIN_debug := core/debug/debug.c $(wildcard core/tracing/*.c)
TWIN_tsan := $(TWIN_debug)
TWIN_asan := $(TWIN_debug)

CORE := $(wildcard core/*.c core/policies/*.c core/arch/$(ARCH)/*.c core/arch/$(ARCH)/*.S)
TESTS := $(patsubst tests/core/%.c,%,$(wildcard tests/core/*_test.c))
objects = $(patsubst %,$(BUILD)/$(1)/%.o,$(CORE) $(TWIN_$(1)))
# What measures time or memory says nothing under a sanitizer.
MEASURES := stack_test idle_test sysmon_test preempt_test spin_test guest_test
tests_tsan = $(filter-out $(MEASURES),$(TESTS))
tests_asan = $(tests_tsan)
tests_of = $(foreach t,$(or $(tests_$(1)),$(TESTS)),$(BUILD)/$(1)/tests/core/$(t))

.PHONY: all
all: $(BUILD)/libheddle.so $(BUILD)/heddle documents

# That of the package: shim/packaging/changelog begins with it.
VERSION := $(shell sed -n '1s/.*(\(.*\)).*/\1/p' shim/packaging/changelog)
# What it shares with the library is built anew: nothing of the core.
COMMAND := $(patsubst %.c,$(BUILD)/command-of/%.o,$(wildcard shim/command/*.c shim/command/ab/*.c shim/command/explore/*.c) core/policies/spec.c)
$(BUILD)/command-of/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE) -iquote shim/command -O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2 \
		-DHEDDLE_VERSION='"$(VERSION)"' -c $< -o $@
$(COMMAND): shim/packaging/changelog
$(BUILD)/heddle: $(COMMAND)
	$(Q)$(CC) $(COMMAND) -o $@ -Wl,-z,now -lunwind-$(ARCH) -lunwind -lm

# The manual page and the completions: texts, with what rows.c tells of the command's tables in them.
DOCUMENTS := $(addprefix $(BUILD)/packaging/,heddle.1 completion.bash completion.zsh)
.PHONY: documents
documents: $(DOCUMENTS)
$(BUILD)/packaging/rows: shim/packaging/rows.c $(filter-out %/heddle.o,$(COMMAND)) shim/variables.def
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE) -O1 $(filter %.c %.o,$^) -o $@ -lunwind-$(ARCH) -lunwind -lm
$(DOCUMENTS): $(BUILD)/packaging/%: shim/packaging/% $(BUILD)/packaging/rows
	$(Q)for part in commands variables complete; do \
		$(BUILD)/packaging/rows $$part >$@.$$part || exit 1; \
	done
	$(Q)sed -e '/^@commands@$$/r $@.commands' -e '/^@variables@$$/r $@.variables' \
		-e '/^@rows@$$/r $@.complete' -e '/^@[a-z]*@$$/d' $< >$@

# First, on one stretch of memory, what runs in every process that starts or forks, threads or not.
EARLY := shim/lookup.c shim/real.c interpose/$(ARCH)/late.S shim/start.c shim/main.c shim/config.c shim/runtimes.c shim/harvest.c shim/loader.c \
	interpose/once.c interpose/process.c interpose/exec.c
SHIM := $(EARLY) $(filter-out $(EARLY),$(wildcard shim/*.c interpose/*.c interpose/$(ARCH)/*.c interpose/$(ARCH)/*.S))
SHIM_FLAGS := -iquote shim -iquote interpose -fexceptions \
	-fasynchronous-unwind-tables

define variant
$(BUILD)/$(1)/shim/%.c.o $(BUILD)/$(1)/interpose/%.c.o: BASE += $(SHIM_FLAGS)
$(BUILD)/$(1)/%.c.o: %.c
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(BASE) $$(FLAGS_$(1)) -c $$< -o $$@
$(BUILD)/$(1)/%.S.o: %.S
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(BASE) -c $$< -o $$@
$(BUILD)/$(1)/libcore.a: $(call objects,$(1))
	@rm -f $$@
	$$(Q)ar rcs $$@ $$^
$(BUILD)/$(1)/tests/core/%_test $(BUILD)/$(1)/tests/bench/%_bench: HARNESS := \
	$(BUILD)/$(1)/tests/test.c.o $(BUILD)/$(1)/tests/core/host.c.o $(BUILD)/$(1)/libcore.a
$(BUILD)/$(1)/tests/core/%_test: $(BUILD)/$(1)/tests/core/%_test.c.o \
		$(BUILD)/$(1)/tests/test.c.o $(BUILD)/$(1)/tests/core/host.c.o $(BUILD)/$(1)/libcore.a
	$$(Q)$$(CC) $$(FLAGS_$(1)) $$< $$(HARNESS) -o $$@ -lpthread
$(BUILD)/$(1)/tests/bench/%_bench: $(BUILD)/$(1)/tests/bench/%_bench.c.o \
		$(BUILD)/$(1)/tests/test.c.o $(BUILD)/$(1)/tests/core/host.c.o $(BUILD)/$(1)/libcore.a
	$$(Q)$$(CC) $$(FLAGS_$(1)) $$< $$(HARNESS) -o $$@ -lpthread
endef
$(foreach v,$(VARIANTS),$(eval $(call variant,$(v))))

# The injected object: the core, shim and interpose. What it exports is its own to itself: no program's function of that
# name comes between, and the loader need not look. Its debug twin is for tests, notrace and unpoliced to see what
# counters and policies cost.
$(BUILD)/exports.map: interpose/exports.sh
	@mkdir -p $(@D)
	$(Q)bash interpose/exports.sh script >$@

define object
$(1): $$(patsubst %,$(BUILD)/$(2)/%.o,$(SHIM)) $(BUILD)/$(2)/libcore.a $(BUILD)/exports.map
	@mkdir -p $$(@D)
	$$(Q)$$(CC) -shared -o $$@ $$(filter %.o,$$^) $(BUILD)/$(2)/libcore.a \
		-Wl,-Bsymbolic-functions -Wl,-z,defs -Wl,-z,now -Wl,-soname,libheddle.so \
		-Wl,--version-script=$(BUILD)/exports.map
endef
$(eval $(call object,$(BUILD)/libheddle.so,release))
$(eval $(call object,$(BUILD)/debug/libheddle.so,debug))
$(eval $(call object,$(BUILD)/notrace/libheddle.so,notrace))
$(eval $(call object,$(BUILD)/unpoliced/libheddle.so,unpoliced))

# ---- tests ----
# Each part ends with "NAME: N passed, N failed"; tests/sum.sh runs them and adds up.

JOBS := $(shell nproc)

.PHONY: check
check: deps
	@$(MAKE) -s -j$(JOBS) tests || true
	@bash tests/sum.sh "$(MAKE) -s lint" "$(MAKE) -s check-core" \
		"$(MAKE) -s check-threads" "$(MAKE) -s check-command" "$(MAKE) -s check-shape" \
		"$(MAKE) -s check-bats" "$(MAKE) -s model"

# Those that take longest first. Those that measure time are alone with the machine, after the others.
CORE_TESTS := $(foreach v,tsan asan debug release,$(call tests_of,$(v)))
ALONE := $(foreach t,sysmon_test preempt_test spin_test netpoll_test guest_test,%/$(t))
CORE_together := $(filter-out $(ALONE),$(CORE_TESTS))
CORE_alone := $(filter $(ALONE),$(CORE_TESTS))
.PHONY: check-core core-together core-alone
check-core: $(CORE_TESTS)
	@bash tests/sum.sh $(foreach part,together alone,$(if $(CORE_$(part)),"$(MAKE) -s core-$(part)")) \
		tests/core/invariants_test.sh
# ThreadSanitizer would let each process sleep for a second at its end.
core-together core-alone: export TSAN_OPTIONS ?= atexit_sleep_ms=50
core-together: $(CORE_together)
	@bash tests/sum.sh -j $(JOBS) $^
core-alone: $(CORE_alone)
	@bash tests/sum.sh $^

# Plain programs, which know nothing of heddle: run natively and preloaded.
CONFORMANCE := $(patsubst tests/conformance/%.c,$(BUILD)/conformance/%,\
	$(wildcard tests/conformance/*_test.c))
$(BUILD)/conformance/%: tests/conformance/%.c $(wildcard tests/conformance/*.h) tests/test.c tests/test.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -g -O1 $(WARN) -D_GNU_SOURCE -fexceptions -iquote tests \
		-o $@ $< tests/test.c -pthread

# make check-threads ONLY=mutex: those programs whose names contain it.
.PHONY: check-threads
check-threads: $(BUILD)/libheddle.so $(CONFORMANCE)
	@bash tests/sum.sh -j $(JOBS) $(foreach p,$(CONFORMANCE),$(if $(or $(if $(ONLY),,all),$(findstring $(ONLY),$(p))),\
		"bash tests/conformance/run.sh $(BUILD) $(p)"))

# The same with a trace of each process, which is read in full; no part of check.
.PHONY: check-traced
check-traced: $(BUILD)/libheddle.so $(CONFORMANCE)
	@rm -rf $(BUILD)/traced
	@TRACED=$(abspath $(BUILD))/traced bash tests/conformance/run.sh $(BUILD) $(CONFORMANCE)

# What the heddle command reads of strangers, with AddressSanitizer.
READERS := $(addprefix shim/command/,digest.c elf.c event.c look.c mem.c modules.c options.c regs.c say.c scene.c symbols.c \
	target.c unwind.c waits.c) tests/command/image.c
READER_FLAGS := -iquote shim/command -iquote tests/command -DHEDDLE_VERSION='"$(VERSION)"' -O1 \
	-fsanitize=address,undefined -fno-sanitize-recover=all
$(BUILD)/command/hostile_test: tests/command/hostile_test.c $(READERS) $(wildcard shim/command/*.h) \
		tests/test.c tests/test.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE) $(READER_FLAGS) $(filter %.c,$^) -o $@ -lunwind-$(ARCH) -lunwind

# The parts of heddle ab that start nothing.
AB := $(addprefix shim/command/ab/,answer.c compare.c counters.c statistics.c variant.c cgroup.c) \
	$(addprefix shim/command/,options.c say.c) core/policies/spec.c
$(BUILD)/command/ab_test: tests/command/ab_test.c $(AB) $(wildcard shim/command/*.h shim/command/ab/*.h) \
		shim/variables.def tests/test.c tests/test.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE) $(READER_FLAGS) $(filter %.c,$^) -o $@ -lm

.PHONY: check-command
check-command: $(BUILD)/command/hostile_test $(BUILD)/command/ab_test
	@bash tests/sum.sh $^

# Instructions and system calls of the hot paths, against budgets: counts, which no load changes.
# make check-shape ROWS="pipe mutex": those rows only.
.PHONY: check-shape
check-shape: $(BUILD)/libheddle.so bench-programs $(BUILD)/release/tests/bench/core_bench
	@$(BUILD)/bench/shape $(BUILD) tests/bench/budgets.def $(ROWS)

# heddle ab on real processes, for a quiet machine; some minutes, and no part of check.
.PHONY: check-ab
check-ab: all
	@bash tests/ab.sh $(BUILD)

# Programs with a mistake, which know nothing of heddle. Bound at once, for a first call that takes long would be a
# longer way through a mistake.
PLANTED := $(patsubst tests/explore/%.c,$(BUILD)/explore/%,$(wildcard tests/explore/*.c))
$(BUILD)/explore/%: tests/explore/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -g -O1 $(WARN) -D_GNU_SOURCE -Wl,-z,now -o $@ $< -pthread

# Programs of libraries of threads, for bats/runtimes.bats: once, for their headers take compilers long.
RUNTIMES := $(addprefix $(BUILD)/runtimes/,cxx tbb gomp iomp)
$(BUILD)/runtimes/cxx: LIBRARIES := -std=c++20
$(BUILD)/runtimes/tbb: LIBRARIES := -std=c++20 -ltbb -lboost_thread -lboost_chrono -lboost_system
$(BUILD)/runtimes/cxx $(BUILD)/runtimes/tbb: $(BUILD)/runtimes/%: tests/apps/source/%.cc
	@mkdir -p $(@D)
	$(Q)g++ -O1 -pthread -o $@ $< $(LIBRARIES)
$(BUILD)/runtimes/gomp $(BUILD)/runtimes/iomp: tests/apps/source/openmp.c tests/apps/source/must.h
	@mkdir -p $(@D)
	$(Q)$(if $(filter %/gomp,$@),gcc,clang) -O1 -fopenmp -o $@ $<

# heddle explore on each, beside a thousand native runs; some minutes, and no part of check.
.PHONY: check-explore
check-explore: all $(PLANTED)
	@bash tests/explore.sh $(BUILD)

# What they begin with: a small program, and what another did, traced.
$(BUILD)/command/seeds: all
	@rm -rf $@ && mkdir -p $@
	$(Q)echo 'int main(void) { return 0; }' | $(CC) -g0 -x c - -o $@/elf -Wl,-z,noseparate-code
	$(Q)strip -o $@/stripped $@/elf
	$(Q)$(BUILD)/heddle run --trace $@/trace xz -T4 -c --block-size=20KiB Makefile >/dev/null

# libFuzzer, until it finds something or FUZZ_SECONDS are over; no part of check.
FUZZ_SECONDS ?= 60
FUZZ_BYTES := 20000
.PHONY: fuzz
fuzz: $(BUILD)/command/seeds
	$(Q)for f in view trace elf; do mkdir -p $(BUILD)/command/$$f.corpus && \
		clang $(BASE) $(READER_FLAGS) -fsanitize=fuzzer -Wno-unused-command-line-argument \
		tests/command/$${f}_fuzz.c $(READERS) -o $(BUILD)/command/$${f}_fuzz -lunwind-$(ARCH) -lunwind && \
		$(BUILD)/command/$${f}_fuzz -max_total_time=$(FUZZ_SECONDS) -close_fd_mask=1 -len_control=0 \
		-max_len=$(FUZZ_BYTES) $(BUILD)/command/$$f.corpus $(BUILD)/command/seeds || exit 1; done

# Conformance under the glibcs of other suites; needs root and the network, and is no part of check.
.PHONY: check-glibc
check-glibc:
	@bash tests/glibc.sh $(BUILD) bookworm=2.36- trixie=2.41- sid

# The packages of make deb, in fresh roots of a suite; the same needs, and no part of check.
.PHONY: check-deb
check-deb:
	@bash tests/deb.sh $(BUILD) bookworm

# What a stranger does first: a fresh root, make demo, the README's command lines. The same needs, and no part of check.
.PHONY: check-stranger
check-stranger:
	@bash tests/stranger.sh $(BUILD) bookworm

# Servers are compared with their native runs, and alone with the machine.
SERVED := bats/servers.bats
.PHONY: check-bats bats-together
BATS_NEED := $(PLANTED) $(RUNTIMES) $(addprefix $(BUILD)/conformance/,threads_test mutex_test)
check-bats: all $(BATS_NEED) $(BUILD)/bench/echo
	@bash tests/sum.sh "$(MAKE) -s bats-together" "bash tests/bats.sh $(SERVED)"
bats-together: all $(BATS_NEED)
	@bash tests/sum.sh -j $(JOBS) $(foreach f,$(filter-out $(SERVED),$(wildcard bats/*.bats)),"bash tests/bats.sh $(f)")

# All that the tests need, for make -j.
.PHONY: tests
tests: all $(CORE_TESTS) $(CONFORMANCE) $(PLANTED) $(RUNTIMES) $(addprefix $(BUILD)/command/,hostile_test ab_test) \
	$(BUILD)/release/tests/bench/core_bench bench-programs

.PHONY: model
model:
	@bash tests/sum.sh "bash tests/model/run.sh $(BUILD)/model" \
		"bash tests/model/spin/run.sh $(BUILD)/model/spin"

# Both compilers, the layout, and the rules of the tree.
.PHONY: lint
lint:
	@bash tests/lint.sh

.PHONY: soak
soak: $(call tests_of,debug) $(call tests_of,release) $(CONFORMANCE) $(BUILD)/libheddle.so \
		$(BUILD)/debug/libheddle.so $(BUILD)/bench/parked
	@bash tests/soak.sh $(BUILD) $(WORDS)

# ---- benchmarks ----

# Plain programs, which know nothing of heddle, natively and preloaded.
# make bench ROWS="mutex pipe" RUNS=9: those rows only, so many runs of each.
BENCH := $(patsubst %,$(BUILD)/bench/%,threads parked waits locks pipes echo compute process growth)
$(BENCH): $(BUILD)/bench/%: tests/bench/%.c tests/bench/bench.c tests/bench/bench.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -g -O2 $(WARN) -D_GNU_SOURCE -o $@ $< tests/bench/bench.c -pthread

# What shape.c counts, it counts in these.
$(BENCH): tests/bench/shape.h
$(BUILD)/bench/shape: tests/bench/shape.c tests/bench/shape.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -g -O2 $(WARN) -D_GNU_SOURCE -o $@ $<

# A peer, where there is a compiler for it.
# GO=/where/it/is/bin/go: another one than that of the PATH.
GO ?= $(shell command -v go)
PEERS := $(if $(GO),$(addprefix $(BUILD)/bench/,peer echo_go))
$(BUILD)/bench/peer: tests/bench/go/peer.go
$(BUILD)/bench/echo_go: tests/bench/go/echo.go
$(PEERS):
	@mkdir -p $(@D)
	$(Q)GO111MODULE=off GOTOOLCHAIN=local GOCACHE=$(abspath $(BUILD))/gocache $(GO) build -o $@ $<

# What counters, policies, a trace and an attached top cost; PAIRS=20 WORDS="trace yield-2".
.PHONY: bench bench-programs bench-core bench-cost
bench-cost: tools all $(BUILD)/notrace/libheddle.so $(BUILD)/unpoliced/libheddle.so bench-programs
	@PAIRS=$(PAIRS) python3 tests/bench/cost.py $(BUILD) $(WORDS)
bench-programs: $(BENCH) $(BUILD)/bench/shape
bench: tools $(BUILD)/libheddle.so bench-programs $(PEERS)
	@RUNS=$(RUNS) python3 tests/bench/run.py $(BUILD) $(ROWS)
bench-core: $(BUILD)/release/tests/bench/core_bench
	@$(BUILD)/release/tests/bench/core_bench

# Real programs, natively and under heddle: a table, build/apps.md. make apps ROWS="pigz redis" RUNS=5.
.PHONY: apps
apps: apps-tools all
	@RUNS=$(RUNS) python3 tests/apps/run.py $(BUILD) $(ROWS)

# ---- what is needed, demonstration, installation ----

BUILDS := gcc libc6-dev make libunwind-dev
PACKAGES := $(BUILDS) g++ clang clang-format spin bats procps gdb stress-ng strace \
	python3-minimal pigz xz-utils zstd tmux
# Those of bats/programs.bats and bats/runtimes.bats beside them.
PROGRAMS := pbzip2 lbzip2 bzip2 x264 libomp-dev libtbb-dev libboost-thread-dev
# Those of bats/servers.bats, and who loads them. The ports of the daemons that some of them start are not ours.
SERVERS := memcached redis-server mariadb-server-core mariadb-client-core sysbench varnish apache2-bin \
	haproxy nginx unbound python3 curl wrk
# Those of bats/install.bats.
SHELLS := zsh mandoc

# As root installs what is missing; otherwise names the one command that does.
.PHONY: deps tools needs apps-tools
deps: NEEDED := $(PACKAGES) $(PROGRAMS) $(SERVERS) $(SHELLS)
tools: NEEDED := $(PACKAGES)
needs: NEEDED := $(BUILDS) python3-minimal
apps-tools: NEEDED = python3 $(shell bash tests/apps/one.bash --packages $(or $(ROWS),$$(bash tests/apps/one.bash --list | cut -f1)))
# Of which one is to say its version first.
apps-tools: tools
deps tools needs apps-tools:
	@missing=""; for p in $(NEEDED); do \
		dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
		else echo "missing packages; as root: apt-get install$$missing"; exit 1; fi; \
	fi

.PHONY: demo
demo: needs all
	@bash tests/demo.sh $(BUILD)

# MODE:FILE:PLACE below PREFIX. heddle finds its library from where it is itself.
ZSH_COMPLETIONS ?= share/zsh/site-functions
INSTALLED := 755:$(BUILD)/heddle:bin/heddle \
	644:$(BUILD)/libheddle.so:lib/heddle/libheddle.so \
	644:shim/gdb/heddle.py:share/heddle/heddle.py \
	644:core/policy.h:include/heddle/policy.h \
	644:$(BUILD)/packaging/heddle.1:share/man/man1/heddle.1 \
	644:$(BUILD)/packaging/completion.bash:share/bash-completion/completions/heddle \
	644:$(BUILD)/packaging/completion.zsh:$(ZSH_COMPLETIONS)/_heddle

.PHONY: install uninstall
install: all
	$(Q)for f in $(INSTALLED); do \
		from=$${f#*:}; \
		install -D -m "$${f%%:*}" "$${from%%:*}" "$(DESTDIR)$(PREFIX)/$${f##*:}" || exit 1; \
	done
uninstall:
	$(Q)for f in $(INSTALLED); do rm -f "$(DESTDIR)$(PREFIX)/$${f##*:}"; done
	$(Q)for d in include lib share; do \
		[ ! -d "$(DESTDIR)$(PREFIX)/$$d/heddle" ] || rmdir --ignore-fail-on-non-empty "$(DESTDIR)$(PREFIX)/$$d/heddle"; \
	done

# A Debian package, and one of its debug information; needs dpkg-dev.
.PHONY: deb
deb: all
	$(Q)bash shim/packaging/deb.sh $(BUILD) $(VERSION)

.PHONY: clean
clean:
	rm -rf $(BUILD)

.SECONDARY:
-include $(shell find $(BUILD) \( -path $(BUILD)/glibc -o -path $(BUILD)/roots \) -prune -o -name '*.d' -print 2>/dev/null)
