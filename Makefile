# What a person and CI run. `make help` explains every target.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GOLANGCI := v2.15.0
GOVULNCHECK := v1.8.0
.PHONY: help
help: ## Explain the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: run
run: servers build ## Build and run everything; prints the address
	exec bin/wending up

.PHONY: build
build: ## Build bin/wending
	CGO_ENABLED=0 go build -trimpath -o bin/wending ./cmd/wending

.PHONY: test
test: tools generate-check format-check vet lint test-race ## Everything CI runs

.PHONY: test-race
test-race: ## Unit, integration and browser tests with the race detector
	go test -race -timeout 8m ./...

.PHONY: test-fast
test-fast: ## The same without the race detector
	go test ./...

.PHONY: fuzz
fuzz: ## Fuzz every reader for a minute each
	go test ./jobs/dataset -run xxx -fuzz FuzzCSV -fuzztime 60s
	go test ./jobs/dataset -run xxx -fuzz FuzzXLSX -fuzztime 60s
	go test ./jobs/dataset -run xxx -fuzz 'FuzzXLS$$' -fuzztime 60s
	go test ./jobs/agent -run xxx -fuzz FuzzDecode -fuzztime 60s

.PHONY: bench
bench: ## Measure; each benchmark prints its ratio to a bare loop or the ideal
	go test -run xxx -bench . -benchtime 1x -timeout 30m ./jobs/... ./handlers/...

.PHONY: chaos
chaos: tools ## Break everything while 40,000 units run, for about five minutes; prints a summary
	WENDING_CHAOS=full go test -v -run TestChaosFull -timeout 60m -count=1 ./cmd/wending

.PHONY: generate
generate: ## Format everything and write the templates' Go code anew
	go tool templ fmt views
	go tool templ generate
	gofmt -w cmd db handlers jobs static views

.PHONY: generate-check
generate-check: ## Fail when the templates' Go code is not up to date
	@before=$$(cat views/*.templ views/*_templ.go | sha256sum); go tool templ fmt views >/dev/null 2>&1; go tool templ generate >/dev/null 2>&1; \
	after=$$(cat views/*.templ views/*_templ.go | sha256sum); \
	[ "$$before" = "$$after" ] || { echo "templates are not formatted or generated: run 'make generate' and commit"; exit 1; }

.PHONY: format-check
format-check: ## Fail on files that gofmt would change
	@changed=$$(gofmt -l cmd db handlers jobs static views); [ -z "$$changed" ] || { echo "gofmt would change:"; echo "$$changed"; exit 1; }

.PHONY: vet
vet: ## go vet
	go vet ./...

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint, at its pinned version
	bin/golangci-lint run

.PHONY: vulnerabilities
vulnerabilities: ## Look for known vulnerabilities (needs the network)
	go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./...

bin/golangci-lint:
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)

# Installs what is missing where that is possible, and says what is missing where it is not.
define require
	@missing=""; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing="$$missing postgresql"; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	if [ "$(1)" = all ]; then \
	  command -v chromium >/dev/null || missing="$$missing chromium"; \
	  command -v pgbouncer >/dev/null || missing="$$missing pgbouncer"; \
	  command -v soffice >/dev/null || missing="$$missing libreoffice-calc-nogui"; \
	  ls /usr/share/fonts/*/noto/*CJK* >/dev/null 2>&1 || fc-list 2>/dev/null | grep -qi cjk || missing="$$missing fonts-noto-cjk"; \
	fi; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing$$missing"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	elif [ "$(1)" = all ] || echo "$$missing" | grep -q postgresql; then \
	  echo "missing on this machine:$$missing"; echo "install with: sudo apt-get install$$missing"; exit 1; \
	fi
endef

.PHONY: servers
servers: ## Install PostgreSQL and Redis where that is possible
	$(call require,servers)

.PHONY: tools
tools: ## Install what the tests need where that is possible
	$(call require,all)
