# Every command a newcomer needs. `make test` is also exactly what CI runs.
CARGO ?= cargo
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
WEB := crates/report/web

BIN := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/release/tailback
.PHONY: crates elsewhere windows windows-check weeks wheel python python-speed demo demo-fleet fleet-hundred test build release release-check small assets deps truth draws twin-draws probe-draws capture-draws monitor-draws ecn-draws l4s-draws nqb-draws quic-draws spin-draws pattern-draws via-draws web-draws accuracy gateway attack fuzz-long fuzz-hours liar-long book install egress

build: assets ## the binary, at target/release/tailback
	$(CARGO) build --release --package tailback

# Crates that `cargo install tailback` takes from a registry. They have no tests, and the page's script that `make assets` has built.
NO_CRATES := lab testkit xtask tailback-browser tailback-python
VERIFY ?= --no-verify
crates: assets ## packages of the crates, in target/package; VERIFY= builds each from its package alone
	$(CARGO) package --quiet --allow-dirty --workspace $(foreach name,$(NO_CRATES),--exclude $(name)) $(VERIFY)

# Packages of a release, in target/dist. Not part of `make test`. Each static binary is one file that runs on any Linux of
# its processor, routers included: small rather than fast. The same commit gives the same packages. Cargo ignores `strip` of
# a profile for a crate that has an opt-level of its own, so rustc is told.
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
DIST := $(TARGET)/dist
ARCHS ?= x86_64 aarch64
# Address of the release's files: the Homebrew formula names it.
DOWNLOAD ?= https://tailback.example/download
ZIG := $(TARGET)/zig/ziglang/zig
CARGO_DIR := $(or $(CARGO_HOME),$(HOME)/.cargo)
# Times in the packages. The compilers do not see it: every commit would compile all C code again, which has no times in it.
DATED := SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)
STATIC_FLAGS := -Clinker=rust-lld -Clink-args=--icf=all -Clink-args=-zpack-relative-relocs \
	--remap-path-prefix=$(CARGO_DIR)=/cargo --remap-path-prefix=$(CURDIR)=/tailback --remap-path-prefix=$(TARGET)=/target
# Rust's names of the processors $(1).
triples = $(foreach a,$(1),$(a)-unknown-linux-musl$(if $(filter armv7,$(a)),eabihf))
# Builds for each processor with the options $(1) of cargo.
static = for target in $(call triples,$(ARCHS)); do name=$$(echo $$target | tr - _); \
	rustup target add $$target && env ZIG=$(ZIG) CC_$$name=$(CURDIR)/packaging/zig-cc \
	CARGO_TARGET_$$(echo $$name | tr a-z A-Z)_RUSTFLAGS="$(STATIC_FLAGS)" \
	$(CARGO) rustc $(1) --locked --package tailback --bin tailback --target $$target -- -Cstrip=symbols || exit 1; done
release: assets $(ZIG) ## packages for the processors of ARCHS, and the files of ALSO; MINISIGN_KEY signs them; needs python3 with venv, and dpkg-deb
	$(call static,--profile static)
	rm -rf $(DIST)
	mkdir -p $(DIST)
	$(DATED) packaging/sbom.py $(TARGET)/tailback.cdx.json $(TARGET)/THIRD-PARTY.txt $(call triples,$(ARCHS))
	$(DATED) packaging/pack.py --output $(DIST) --url $(DOWNLOAD) --notices $(TARGET)/THIRD-PARTY.txt --with $(TARGET)/tailback.cdx.json $(foreach file,$(ALSO),--with $(file)) \
	$(foreach a,$(ARCHS),$a=$(TARGET)/$(call triples,$a)/static/tailback)
	@if [ -n "$(MINISIGN_KEY)" ]; then minisign -S -s "$(MINISIGN_KEY)" -t "tailback" -m $(DIST)/SHA256SUMS; \
	else echo "MINISIGN_KEY names no secret key: SHA256SUMS is not signed" >&2; fi
	@ls -l $(DIST)

small: assets $(ZIG) ## binaries of test, probe, monitor and serve alone, for routers, and what they take of a compressed flash
	$(call static,--profile small --no-default-features)
	@for target in $(call triples,$(ARCHS)); do file=$(TARGET)/$$target/small/tailback; \
	echo "$$file: $$(stat -c %s $$file) bytes, $$(xz -c $$file | wc -c) in xz"; done

# The C compiler for other systems and processors.
$(ZIG):
	python3 -m venv $(TARGET)/zig
	$(TARGET)/zig/bin/pip install --quiet --target $(TARGET)/zig ziglang==0.14.1

# Other systems than Linux have the verbs that measure nothing: they read, analyse, report, simulate and calculate.
ELSEWHERE := x86_64-pc-windows-gnu aarch64-apple-darwin
elsewhere: assets $(ZIG) ## checks that the command and the Python package compile for Windows and macOS
	for target in $(ELSEWHERE); do rustup target add $$target 2>/dev/null || true; \
	if [ -d "$$(rustc --print target-libdir --target $$target)" ]; then \
	name=$$(echo $$target | tr - _); env ZIG=$(ZIG) CC_$$name=$(CURDIR)/packaging/zig-cc AR_$$name=$(CURDIR)/packaging/zig-ar \
	$(CARGO) check --release --package tailback --package tailback-python --target $$target || exit 1; \
	else echo "this toolchain has no $$target: not checked" >&2; fi; done

WINDOWS := x86_64-pc-windows-gnu
windows: assets ## the command for Windows, at target/$(WINDOWS)/static/tailback.exe; needs Debian's gcc-mingw-w64-x86-64
	rustup target add $(WINDOWS)
	$(CARGO) rustc --profile static --package tailback --bin tailback --target $(WINDOWS) -- -Cstrip=symbols

# Rooms whose tests need neither Linux nor a network.
EVERYWHERE := base stats theory link congestion measure sim store analysis experiment report twin
windows-check: build windows ## tests of the pure rooms under Wine, and the command's answers beside Linux's: equal bytes; needs Debian's wine, too
	CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$(CURDIR)/packaging/wine \
	$(CARGO) test --release --target $(WINDOWS) $(foreach room,$(EVERYWHERE),--package tailback-$(room)) --lib --tests
	packaging/windows_check.py $(BIN) $(TARGET)/$(WINDOWS)/static/tailback.exe

# The processor of this machine must be among ARCHS.
HERE := $(shell uname -m)
release-check: ## runs the binaries of `make release` on a recording, those of other processors by qemu-user: equal bytes
	rm -rf $(TARGET)/check
	for a in $(ARCHS); do mkdir -p $(TARGET)/check/$$a && tar xzf $(DIST)/tailback-$$a.tar.gz -C $(TARGET)/check/$$a || exit 1; done
	cd $(TARGET)/check && $(HERE)/tailback/tailback test --link adsl --virtual --seed 1 --quiet --output adsl.rec > $(HERE).test
	cd $(TARGET)/check && for a in $(ARCHS); do \
	if [ $$a = $(HERE) ]; then run=; else run=qemu-$${a%v7}-static; fi; \
	$$run $$a/tailback/tailback analyse adsl.rec > $$a.txt || exit 1; done
	cd $(TARGET)/check && for a in $(ARCHS); do cmp $$a.txt $(HERE).txt || exit 1; done
	@echo "equal on $(ARCHS)"

demo-fleet: build ## a hub, a server and five points in network namespaces, two minutes; needs root
	$(SUDO) python3 bench/demo_fleet.py

POINTS := 100
SECONDS := 150
fleet-hundred: build ## a hub and POINTS agents behind drawn links for SECONDS, with kills and cuts: docs/book/fleet.md; needs root
	$(SUDO) python3 bench/fleet_hundred.py $(POINTS) $(SECONDS) $(or $(SEED),1)

# Without the analysis for browsers, which `make build` adds: the demo needs no browser. An old date has `make assets` build it.
demo: $(WEB)/dist/page.js ## the whole job on one machine, over an emulated ADSL line
	mkdir -p $(dir $(ANALYSIS))
	test -e $(ANALYSIS) || { : > $(ANALYSIS) && touch -d @0 $(ANALYSIS); }
	$(CARGO) build --release --package tailback
	rm -rf demo.rec
	target/release/tailback test --link adsl --title "Demo: an emulated ADSL line" --output demo.rec

# Temporary files of the tests stand beside the build, which has room, whatever the size of /tmp.
SCRATCH := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/tmp
test: deps assets ## installs what tests need and runs all of them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- --deny warnings
	$(CARGO) clippy --release --package tailback --no-default-features -- --deny warnings
	mkdir -p $(SCRATCH)
	TMPDIR=$(SCRATCH) $(CARGO) xtask test
	$(CARGO) doc --release --workspace --no-deps --quiet
	$(MAKE) elsewhere crates
	$(CARGO) xtask check
	$(MAKE) book
	cd $(WEB) && TMPDIR=$(SCRATCH) npm test

# Functions of the same code are stored once, where Rust links with its own linker.
FOLD_x86_64 := -- -Clink-arg=-Wl,--icf=all
wheel: assets ## the Python package as one file, in target/wheels; needs python3 with venv
	python3 -m venv $(SCRATCH)/maturin
	$(SCRATCH)/maturin/bin/pip install --quiet 'maturin>=1.16,<2'
	PATH="$(SCRATCH)/maturin/bin:$$PATH" maturin build --profile wheel --manifest-path python/Cargo.toml $(FOLD_$(shell uname -m))

python: wheel ## checks of the Python package with type checkers and consumers of Arrow, from PyPI
	$(SCRATCH)/maturin/bin/pip install --quiet --force-reinstall --no-deps target/wheels/tailback-*.whl
	$(SCRATCH)/maturin/bin/pip install --quiet mypy pyright pyarrow polars pandas duckdb pytz narwhals nanoarrow anywidget nbclient ipykernel
	cd $(SCRATCH) && maturin/bin/mypy --strict -p tailback && maturin/bin/stubtest tailback
	cd $(SCRATCH) && PATH="$(SCRATCH)/maturin/bin:$$PATH" pyright --verifytypes tailback --ignoreexternal
	cd $(SCRATCH) && maturin/bin/python $(CURDIR)/python/tests/test_package.py
	cd $(SCRATCH) && maturin/bin/python $(CURDIR)/python/tests/matrix.py
	cd $(SCRATCH) && maturin/bin/python $(CURDIR)/python/tests/notebooks.py --kernel

python-speed: build ## speed and size of the Python package that `make python` has installed: the table of docs/book/python.md
	$(SCRATCH)/maturin/bin/python bench/python_speed.py $(SCRATCH)/python-speed $(BIN)

truth: build ## the test on links whose truth is known: docs/book/truth.md
	python3 bench/truth.py

weeks: build ## how fast the pages of three weeks at ten probes a second are made, open and move, in a file and live: docs/book/monitor.md
	python3 bench/weeks.py $(SCRATCH)/weeks 10
	cd $(SCRATCH)/weeks && $(BIN) import delay.csv dropped.csv traffic.csv --output weeks.rec --zone Europe/Oslo
	cd $(SCRATCH)/weeks && bash -c 'time $(BIN) report weeks.rec --output weeks.html'
	node bench/page_speed.mjs file://$(SCRATCH)/weeks/weeks.html
	python3 bench/live_weeks.py $(SCRATCH)/weeks/live $(BIN)

SEED ?= $(shell date +%Y%m%d)
draws: build ## the test on random links, each seed others, half an hour: docs/book/draws.md
	$(CARGO) run --release --package lab -- draws \
	--seed $(SEED) --virtual 400 --namespaces 40 --page docs/book/draws.md

LINKS ?= 24
twin-draws: ## twins of random links in virtual time, each seed others: docs/book/twin-draws.md
	$(CARGO) run --release --package lab -- twin-draws --seed $(SEED) --count $(LINKS) --page docs/book/twin-draws.md

accuracy: build ## every kind of probe on lines whose truth is known, fifty minutes: docs/book/probe/accuracy.md
	$(CARGO) run --release --package lab -- accuracy > accuracy.tmp
	mv accuracy.tmp docs/book/probe/accuracy.md

gateway: build ## latency control beside its rivals on random links, half an hour: the tables of docs/book/control.md
	$(CARGO) run --release --package lab -- gateway --seed $(SEED) --virtual 40 --namespaces 2 --kills 100

attack: ## all attacks on a server at once for a minute, beside an honest client
	ATTACK_SECONDS=60 $(CARGO) test --release --package tailback --test attack -- --nocapture

capture-draws: COUNT = 300
capture-draws: ## captures of random transfers, judged by what the simulator knows: docs/book/capture-draws.md
	$(CARGO) run --release --package lab -- capture-draws --seed $(SEED) --count $(COUNT) --page docs/book/capture-draws.md

monitor-draws: COUNT = 400
monitor-draws: ## monitors of random links, judged by the law of each: docs/book/monitor-draws.md
	$(CARGO) run --release --package lab -- monitor-draws --seed $(SEED) --count $(COUNT) --page docs/book/monitor-draws.md

probe-draws: ## experiments on random links in virtual time: docs/book/probe/random.md
	$(CARGO) run --release --package lab -- probe-draws --seed $(SEED) --count 400 > probe-draws.tmp
	mv probe-draws.tmp docs/book/probe/random.md

ecn-draws: ## markings on random chains of routers in virtual time: the tables of docs/book/probe/ecn.md
	ECN_SEED=$(SEED) $(CARGO) test --release --workspace --test probes ecn:: -- --nocapture

l4s-draws: ## Prague and CUBIC over random queues in virtual time: the table of docs/book/probe/l4s.md
	L4S_SEED=$(SEED) $(CARGO) test --release --workspace --test probes l4s:: -- --nocapture

nqb-draws: ## NQB and CUBIC over random queues in virtual time: the table of docs/book/probe/nqb.md
	NQB_SEED=$(SEED) $(CARGO) test --release --workspace --test probes nqb:: -- --nocapture

quic-draws: ## QUIC beside TCP over links that treat UDP badly in virtual time: the table of docs/book/probe/quic.md
	QUIC_SEED=$(SEED) $(CARGO) test --release --workspace --test probes quic:: -- --nocapture

spin-draws: ## spin-bit round trips of QUIC endpoints over random paths in virtual time: the table of docs/book/flows.md
	SPIN_SEED=$(SEED) SPIN_COUNT=100 $(CARGO) test --release --workspace --test spin draws -- --nocapture

pattern-draws: ## patterns of radio and satellite links in random recordings: the table of docs/book/patterns.md
	PATTERN_SEED=$(SEED) PATTERN_COUNT=100 $(CARGO) test --release --workspace --test patterns draws -- --nocapture

VIA_COUNT ?= 3
via-draws: ## tests over servers of other protocols on random links, half a minute each: the table of docs/book/via.md
	VIA_SEED=$(SEED) VIA_COUNT=$(VIA_COUNT) $(CARGO) test --release --workspace --test via draws:: -- --nocapture --test-threads 1

WEB_COUNT ?= 6
web-draws: ## Chromium beside `tailback test` on random links, three minutes each: the table of docs/book/web.md
	WEB_SEED=$(SEED) WEB_COUNT=$(WEB_COUNT) $(CARGO) test --release --workspace --test web random -- --nocapture

COUNT ?= 10000000
fuzz-long: ## ten million mutated messages of each protocol; of files fewer, by their weight in fuzz/targets.rs
	FUZZ_COUNT=$(COUNT) $(CARGO) test --release --package tailback --test fuzz -- --nocapture

HOURS ?= 24
fuzz-hours: ## fuzzing by coverage until HOURS of processor time are spent in all; needs cargo-fuzz and a nightly toolchain
	fuzz/hours.py $(HOURS)

LIES ?= 100000
LIARS ?= 200
LIAR_SECONDS ?= 1800
liar-long: ## 100,000 lies of a server to each verb in virtual time, and half an hour of lies over sockets
	LIES=$(LIES) $(CARGO) test --release --package tailback-experiment --test probes -- --nocapture liar
	LIES=$(LIES) LIARS=$(LIARS) LIAR_SECONDS=$(LIAR_SECONDS) $(CARGO) test --release --package tailback --test liar -- --nocapture

EGRESS := crates/live/src/control
egress: ## the gateway's eBPF program from its source; needs Debian's clang and llvm, builds do not
	cd $(EGRESS) && clang -O2 -g -ffile-prefix-map=$(CURDIR)/$(EGRESS)/= -ffile-prefix-map=$(CURDIR)/$(EGRESS)=. -mcpu=v3 -target bpf -I/usr/include/$$(uname -m)-linux-gnu -Wall -Wextra -Werror -c egress.c -o egress.o
	cd $(EGRESS) && llvm-strip -g egress.o && sha256sum egress.c egress.o > egress.sha256

ANALYSIS := crates/cli/web/browser.wasm.gz
assets: $(WEB)/dist/page.js $(ANALYSIS) ## needs Node.js and `rustup target add wasm32-unknown-unknown`

$(WEB)/dist/page.js: $(WEB)/package-lock.json $(wildcard $(WEB)/src/*)
	cd $(WEB) && npm ci --no-audit --no-fund && npm run build

# The analysis for browsers. Of the rooms in it, only the pure ones and the report. Empty if the toolchain has no
# WebAssembly: all else works without.
WASM := wasm32-unknown-unknown
PAGE := base stats congestion measure analysis experiment report browser
$(ANALYSIS): $(WEB)/dist/page.js Cargo.lock $(foreach room,$(PAGE),$(shell find crates/$(room)/src -name '*.rs'))
	mkdir -p $(@D)
	rustup target add $(WASM) 2>/dev/null || true
	if [ -d "$$(rustc --print target-libdir --target $(WASM))" ]; then \
	$(CARGO) rustc --profile page --package tailback-browser --lib --crate-type cdylib --target $(WASM) && \
	gzip -9 -n -c $(or $(CARGO_TARGET_DIR),target)/$(WASM)/page/browser.wasm > $@.tmp && mv $@.tmp $@; \
	else echo "this toolchain has no $(WASM): \`tailback serve --web\` will say so" >&2 && : > $@; fi

deps: ## Debian packages, and aioquic from PyPI, that the tests (not the program) use
	@for p in chromium clickhouse-server iperf3 iproute2 irtt minisign nftables pebble prometheus python3 python3-venv; do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends $$missing; fi
	@$(SCRATCH)/aioquic/bin/python -c 'import aioquic' 2>/dev/null || { python3 -m venv $(SCRATCH)/aioquic && $(SCRATCH)/aioquic/bin/pip install --quiet aioquic; }

# mdBook is built fast, not to be fast: half a second for the book.
book: ## the book as a site, in target/book
	@export PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; \
	command -v mdbook >/dev/null || CARGO_PROFILE_RELEASE_OPT_LEVEL=0 $(CARGO) install mdbook --no-default-features --locked --quiet --target-dir $(SCRATCH)/mdbook; \
	mdbook build docs

install: build
	$(SUDO) install --strip --mode 755 target/release/tailback /usr/local/bin/tailback
