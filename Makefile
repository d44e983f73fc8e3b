# heddle: see README.md. Everything is built into build/; nothing else is written.
CC ?= gcc
BUILD ?= build
ARCH := x86_64
# make V=1 shows the commands.
Q := $(if $(V),,@)

WARN := -Wall -Wextra -Wundef -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
	-Wvla -Werror
BASE := -std=gnu11 -g $(WARN) -fvisibility=hidden -fno-stack-protector -fno-omit-frame-pointer \
	-fno-plt -iquote core -iquote core/arch/$(ARCH) -MMD -MP

# A variant of the core is a choice of twins (folders of same-named files) and of flags.
VARIANTS := release notrace debug tsan asan
FLAGS_release := -O2 -iquote core/release -iquote core/tracing -iquote core/san/none
FLAGS_notrace := -O2 -iquote core/release -iquote core/notrace -iquote core/san/none
FLAGS_debug := -O1 -iquote core/debug -iquote core/tracing -iquote core/san/none
FLAGS_tsan := -O1 -fsanitize=thread -iquote core/debug -iquote core/tracing -iquote core/san/tsan
FLAGS_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
	-iquote core/debug -iquote core/tracing -iquote core/san/asan
TWIN_release := core/release/debug.c core/tracing/trace.c
TWIN_notrace := core/release/debug.c
TWIN_debug := core/debug/debug.c core/tracing/trace.c
TWIN_tsan := $(TWIN_debug)
TWIN_asan := $(TWIN_debug)

CORE := $(wildcard core/*.c core/arch/$(ARCH)/*.c core/arch/$(ARCH)/*.S)
objects = $(patsubst %,$(BUILD)/$(1)/%.o,$(CORE) $(TWIN_$(1)))

.PHONY: all
all: $(BUILD)/release/libcore.a

define variant
$(BUILD)/$(1)/%.c.o: %.c
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(BASE) $$(FLAGS_$(1)) -c $$< -o $$@
$(BUILD)/$(1)/%.S.o: %.S
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(BASE) -c $$< -o $$@
$(BUILD)/$(1)/libcore.a: $(call objects,$(1))
	@rm -f $$@
	$$(Q)ar rcs $$@ $$^
$(BUILD)/$(1)/tests/core/%_test: $(BUILD)/$(1)/tests/core/%_test.c.o $(BUILD)/$(1)/tests/test.c.o \
		$(BUILD)/$(1)/tests/core/host.c.o $(BUILD)/$(1)/libcore.a
	$$(Q)$$(CC) $$(FLAGS_$(1)) $$^ -o $$@ -lpthread
$(BUILD)/$(1)/tests/bench/core_bench: $(BUILD)/$(1)/tests/bench/core_bench.c.o \
		$(BUILD)/$(1)/tests/test.c.o $(BUILD)/$(1)/tests/core/host.c.o $(BUILD)/$(1)/libcore.a
	$$(Q)$$(CC) $$(FLAGS_$(1)) $$^ -o $$@ -lpthread
endef
$(foreach v,$(VARIANTS),$(eval $(call variant,$(v))))

TESTS := $(patsubst tests/core/%.c,%,$(wildcard tests/core/*_test.c))

.PHONY: clean
clean:
	rm -rf $(BUILD)

.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
