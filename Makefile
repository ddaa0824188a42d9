# gdbrr: one Makefile for the engine, the environment, the demonstration and the tests.
# Every target is described by the text behind its '##'; `make help` prints them.

SHELL := /bin/sh
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BUILD ?= build
PYTHON ?= python3
VENV := .venv/bin/python
CC := $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
# Empty where an unknown compiler must not be able to stop an installation (setup.py).
WERROR ?= -Werror

# ---------------------------------------------------------------- the engine
# merge.c runs beside Python only (gdbrr._native); the launcher is a program of its own.
ENGINE_DIRS := core log ctl heap patch replay digest count signal signal/tsc signal/loop signal/preempt syscall syscall/fd syscall/memory syscall/process syscall/query sync watch ckpt
ENGINE_C := $(filter-out preload/log/merge.c preload/patch/atomics.c,$(foreach d,$(ENGINE_DIRS),$(wildcard preload/$(d)/*.c))) \
            $(wildcard preload/init.c)
ENGINE_S := $(foreach d,$(ENGINE_DIRS),$(wildcard preload/$(d)/*.S)) $(wildcard preload/*.S)
LAUNCH_O := $(patsubst %,$(BUILD)/launch/%.o,launch fence carried libraries random tracer syscall/table)
ENGINE_O := $(ENGINE_C:preload/%.c=$(BUILD)/obj/%.o) $(ENGINE_S:preload/%.S=$(BUILD)/obj/%.o)

WARNINGS := -Wall -Wextra $(WERROR)
# mgeneral-regs-only: the engine must leave vector state alone, and saving it costs 117 ns a call.
# initial-exec: thread-locals without a call into the loader, whose locks the program may hold.
# no-stack-protector: the canary lives in the program's thread block, which the engine may not trust.
# Small structures are copied and cleared by plain moves: a string instruction takes longer to start.
UNROLLED := -mmemcpy-strategy=unrolled_loop:512:noalign,libcall:-1:noalign \
            -mmemset-strategy=unrolled_loop:512:noalign,libcall:-1:noalign
ENGINE_CFLAGS := -std=gnu11 -D_GNU_SOURCE -O2 -g1 -fPIC -fvisibility=hidden -mgeneral-regs-only \
                 $(UNROLLED) -fno-stack-protector -ftls-model=initial-exec -Ipreload $(WARNINGS)
# initfirst: without it another library's constructor runs before the engine and escapes it.
# Without line tables: a debugger's `step` passes over what is not the program's. STRIP= keeps them, to debug the engine.
STRIP := -Wl,--strip-debug
# What is static in the engine is renamed behind the link: `break add` is about the program's function of that name.
ENGINE_LDFLAGS := -shared $(STRIP) -Wl,-z,initfirst -Wl,-z,now -Wl,-z,noexecstack -Wl,--version-script=preload/exports.map
LAUNCH_CFLAGS := -std=gnu11 -O2 -g1 -Ipreload $(WARNINGS)

ENGINE := preload/libgdbrr.so
LAUNCH := preload/gdbrr-launch
VECTORS := preload/gdbrr-vectors.so
FRONT := .venv/bin/gdbrr
NATIVE := gdbrr/_native.abi3.so
ifneq ($(BUILD),build)
ENGINE := $(BUILD)/libgdbrr.so
LAUNCH := $(BUILD)/gdbrr-launch
VECTORS := $(BUILD)/gdbrr-vectors.so
endif

# ---------------------------------------------------------------- targets
.PHONY: help build engine demo test lint wander identity model matrix soak faults kernel apps bench docs clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: .venv/.setup-run engine $(NATIVE) $(FRONT) ## build the engine, the launcher and the native module

engine: $(ENGINE) $(LAUNCH) $(VECTORS)

NAME ?= overdraft
demo: build $(BUILD)/demos/$(NAME) ## set up what is missing, record a buggy program and go back to the bug (NAME=a folder of demos)
	@$(VENV) demos/show.py $(NAME) </dev/null

test: .venv/.setup-test build ## set up what is missing and run every test
	@$(VENV) -m pytest -n $$(($(JOBS) + 1)) --dist worksteal </dev/null # waiting is half of a test's time; neighbours share fixtures

lint: .venv/.setup-test build ## warnings as errors, ruff, mypy --strict, layers, headers, shellcheck, fresh docs
	@$(VENV) -m pytest -q tests/lint </dev/null

wander: build ## a thousand random steps of a debugger, forwards and back, on four demos, and beside GDB's own recording
	GDBRR_WANDER=1000 $(VENV) -m pytest -q tests/gdb/test_scenarios.py tests/gdb/steps/test_meaning.py -k random

identity: .venv/.setup-test build ## compare the state of 20 replays of each program with its recording (minutes)
	@GDBRR_IDENTITY_REPLAYS=20 $(VENV) -m pytest -q -n $(JOBS) tests/identity </dev/null

model: .venv/.setup-test build ## ask a timeline 10,000 random questions whose answers are known (half an hour)
	@GDBRR_MODEL_OPERATIONS=10000 $(VENV) -m pytest -q -n $(JOBS) tests/timeline/test_model.py </dev/null

matrix: .venv/.setup-test build ## replay every stretch of every test program twice and compare the states; 1 to 256 threads, a gigabyte (half an hour)
	@GDBRR_MATRIX=all $(VENV) -m pytest -q -n $(JOBS) tests/timeline/state/test_matrix.py </dev/null

soak: .venv/.setup-test build ## record 500 random programs, and 50 times each threaded one, in every order and under load (hours)
	@GDBRR_SOAK_PROGRAMS=500 GDBRR_SOAK_RECORDINGS=50 $(VENV) -m pytest -q -n $$((2 * $(JOBS))) tests/soak </dev/null

MINUTES ?= 60
faults: .venv/.setup-test build ## kill, fill, slow and starve recordings, replays and sessions at random (MINUTES=60); build/faults says what was survived, with DOCS=1 docs/limits.md, too
	@PYTHONPATH=tests:. $(VENV) -m faults --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(DOCS),--docs) </dev/null

kernel: .venv/.setup-test build ## replay packed demos below Debian's kernel in qemu, and let its clock of the day jump (minutes)
	@PYTHONPATH=tests:. $(VENV) -m kernel </dev/null

apps: .venv/.setup-test build ## record and replay real programs, all of tests/apps/table.py that are installed; writes docs/applications.md
	@GDBRR_APPS=all $(VENV) -m pytest -q -n 1 tests/apps </dev/null; status=$$?; \
	PYTHONPATH=tests:. $(VENV) tests/apps/page.py && exit $$status

bench: build ## measure everything against native and other tools (12 minutes; ARGS=--quick 3, "--only PART", --docs)
	@$(VENV) -m bench $(ARGS) </dev/null

docs: build ## write the generated pages of docs/ again
	@$(VENV) -m gdbrr.report.docs </dev/null
	@$(VENV) -m gdbrr.ingdb.docs </dev/null
	@$(VENV) -m bench.report.docs </dev/null

clean: ## remove what was built, keep .venv
	rm -rf $(BUILD) $(ENGINE) $(LAUNCH) $(VECTORS) gdbrr/_native*.so gdbrr/_engine

distclean: clean ## remove .venv as well
	rm -rf .venv

# ---------------------------------------------------------------- rules
# One short line a step; `make V=1` shows the commands.
Q := $(if $(filter 1,$(V)),,@)
note = @printf '  %-6s %s\n' $(1) $(2)

ifneq ($(filter test lint identity soak faults kernel,$(MAKECMDGOALS)),)
.venv/.setup-run: .venv/.setup-test # never both at once under -j
endif

.venv/.setup-run .venv/.setup-test: .venv/.setup-%: .ci/setup .ci/requirements.py pyproject.toml
	@PYTHON=$(PYTHON) .ci/setup $* </dev/null
	@touch $@

$(BUILD)/obj/%.o: preload/%.c Makefile
	@mkdir -p $(@D)
	$(call note,cc,$<)
	$(Q)$(CC) $(ENGINE_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: preload/%.S Makefile
	@mkdir -p $(@D)
	$(call note,cc,$<)
	$(Q)$(CC) $(ENGINE_CFLAGS) -MMD -MP -c -o $@ $<

$(ENGINE): $(ENGINE_O) preload/exports.map
	$(call note,link,$@)
	$(Q)$(CC) $(ENGINE_LDFLAGS) -o $@.new $(ENGINE_O)
	$(Q)nm $@.new | awk '$$2 ~ /[bdrt]/ && $$3 !~ /^(_|gr_|gdbrr_)/ {print $$3, "gr_" $$3}' | sort -u >$@.names
	$(Q)objcopy --redefine-syms=$@.names $@.new
	@rm $@.names
	@mv $@.new $@

$(BUILD)/launch/%.o: preload/%.c Makefile
	@mkdir -p $(@D)
	$(call note,cc,$<)
	$(Q)$(CC) $(LAUNCH_CFLAGS) -MMD -MP -c -o $@ $<

$(LAUNCH): $(LAUNCH_O)
	$(call note,link,$@)
	$(Q)$(CC) -o $@.new $(LAUNCH_O)
	@mv $@.new $@

$(VECTORS): preload/vectors.c Makefile
	@mkdir -p $(@D)
	$(call note,cc,$<)
	$(Q)$(CC) $(LAUNCH_CFLAGS) -fPIC -shared -o $@.new $<
	@mv $@.new $@

$(FRONT): preload/front.c .venv/.setup-run Makefile
	$(call note,cc,$@)
	$(Q)$(CC) -std=gnu11 -O2 -ffreestanding -fno-stack-protector -fno-pie $(WARNINGS) -static -nostdlib -no-pie -o $@.new $<
	@mv $@.new $@

$(NATIVE): .venv/.setup-run preload/abi.h $(wildcard preload/log/*.c preload/log/*.h preload/patch/atomics.* preload/patch/decode.* preload/tables/*.def) gdbrr/demo/native_build.py
	$(call note,native,$@)
	$(Q)$(VENV) -m gdbrr.demo.native_build </dev/null
	@touch $@

# -O0 and no inlining: every variable and every line of a demonstration can be watched.
$(BUILD)/demos/%: demos/%/bug.c Makefile
	@mkdir -p $(@D)
	$(call note,cc,$<)
	$(Q)$(CC) -g -O0 -pthread -Wall -Wextra -o $@ $<

-include $(ENGINE_O:.o=.d) $(LAUNCH_O:.o=.d)
