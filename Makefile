# `make help` lists the targets. Everything runs in .venv, which `make` creates.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := venv
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
OLD := .cache/venv-3.11
AWX := .cache/venv-awx
WANDB := .cache/venv-wandb
DOCS := .cache/venv-docs
AXE := .cache/axe/axe_playwright_python/axe.min.js
export PATH := $(BIN):$(PATH)
export PYTHONUNBUFFERED := 1
unexport ANSIBLE_COLLECTIONS_PATH ANSIBLE_CONFIG

NAME ?= lab
SPEC ?= lab/specs/default.yml
INVENTORY ?= $(NAME).ini
PYTEST := $(BIN)/python -m pytest

# The groups of long tests; each takes at most 30 minutes on two cores. `make test-all GROUP=x` runs one of them.
GROUPS := check-mode interrupted shapes growing wrong-input faults driver drift secrets sharing health cuda operator dra metrics pools runner awx awx-configure training storage docker minikube minikube-docker launch tutorial network guides first-run untidy in-use second-release endpoint control-planes renewal restore nodes reset upgrade upgrade-all dkms patience hostile kit under-fire scenarios older vm
tests_check-mode := test_check_mode.py test_second_run.py
tests_interrupted := test_interrupted.py
tests_shapes := test_shapes.py
tests_growing := test_single_node.py test_add_worker.py
tests_wrong-input := test_wrong_input.py test_isolation.py
tests_faults := test_faults.py
tests_driver := test_driver_upgrade.py
tests_drift := test_living_with_others.py
tests_secrets := test_secrets.py
tests_sharing := test_sharing.py
tests_health := test_health.py
tests_cuda := test_cuda_toolkit.py
tests_operator := test_gpu_operator.py
tests_dra := test_dra.py
tests_metrics := test_metrics.py
tests_pools := test_pools.py
tests_runner := test_runner.py
tests_awx := test_awx.py
tests_awx-configure := test_configure.py
tests_training := test_training.py
tests_storage := test_storage.py
tests_docker := test_docker.py
tests_minikube := test_minikube.py
tests_minikube-docker := test_minikube_docker.py
tests_launch := test_launch.py test_launch_agent.py
tests_tutorial := test_tutorial.py
tests_network := test_network_plugin.py test_network.py
tests_guides := test_guides.py
tests_first-run := test_first_run.py
tests_untidy := test_untidy.py
tests_in-use := test_in_use.py
tests_second-release := test_second_release.py
tests_endpoint := test_endpoint.py
tests_control-planes := test_control_planes.py
tests_renewal := test_renewal.py
tests_restore := test_backup.py test_restore.py
tests_nodes := test_nodes.py
tests_reset := test_reset.py
tests_upgrade := test_upgrade.py
tests_upgrade-all := test_upgrade_all.py
tests_dkms := test_dkms.py
tests_patience := test_patience.py
tests_hostile := test_hostile.py
tests_kit := test_gpu_check.py
tests_under-fire := test_fire.py
tests_vm := test_vm.py
GROUP ?= $(GROUPS)
LABS := default interrupted shapes single-node add-worker wrong-input driver gpu-operator dra metrics pools driver-installer runner training storage docker minikube minikube-docker launch tutorial network-plugin vxlan host-gw awx guides first-run untidy untidy-refused in-use second-release endpoint control-planes renewal restore nodes reset upgrade upgrade-all dkms gpu-check vm cuda secrets fire-site

.PHONY: help venv lab lab-down train test test-all groups labs lint unit unit-old fuzz fire lint-rest galaxy molecule awx-tools wandb-tools report-test gpu-kit gpu-check pictures bench release docs site docs-tools docs-lint clean $(GROUPS)

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'
	echo "  groups of test-all: $(GROUPS)"

venv: ## create .venv with the newest Python that fits (the default target)
	@.ci/make-venv $(VENV) requirements-dev.txt 3.14 3.13 3.12 || {
	  [ $$? -eq 3 ] || exit 1
	  echo "venv: no Python 3.12 to 3.14 found, trying 3.11 with ansible-core 2.19"
	  .ci/make-venv $(VENV) requirements-dev.txt 3.11 || { echo "venv: no Python 3.11 to 3.14 here; install one with its venv module, or run make PYTHON=/path/to/python3" >&2; exit 1; }
	}

lab: venv ## build packages and images, start bare nodes, run site.yml on them, show the report
	@started=$$SECONDS
	echo "lab: 1/3 the depot: packages and images (about 15 minutes the first time, seconds after that)"
	python -m lab build --name $(NAME) --spec $(SPEC) --inventory $(INVENTORY)
	echo "lab: 2/3 bare nodes; their inventory is $(INVENTORY)"
	python -m lab up --name $(NAME) --spec $(SPEC) --inventory $(INVENTORY)
	echo "lab: 3/3 ansible-playbook site.yml -i $(INVENTORY), which prints the report at the end"
	ansible-playbook site.yml -i $(INVENTORY)
	echo "lab: done in $$((SECONDS - started)) s. The full report is gpulab-report.json. To list the nodes: python -m lab kubectl get nodes. To remove the lab: make lab-down"

train: venv ## train on the lab of `make lab`: 2 nodes, PyTorch with gloo; print the summary
	@[ -f $(INVENTORY) ] || { echo "train: there is no inventory $(INVENTORY); run make lab to create it" >&2; exit 1; }
	started=$$SECONDS
	echo "train: 1/2 the image: PyTorch from Debian (about 5 minutes the first time)"
	python -m lab build --with torch
	echo "train: 2/2 ansible-playbook playbooks/train.yml -i $(INVENTORY)"
	ansible-playbook playbooks/train.yml -i $(INVENTORY)
	echo "train: done in $$((SECONDS - started)) s. The summary: gpulab-training-report.json"

lab-down: venv ## remove the lab and nothing else
	@echo "lab-down: removing the lab $(NAME)"
	python -m lab down --name $(NAME)

test: lint unit report-test galaxy molecule ## lint, unit tests, report page, package, molecule on the lab (about 18 minutes)

test-all: venv ## the long scenarios, all groups or GROUP=x (each at most 30 minutes)
	@for group in $(GROUP); do
	  case " $(GROUPS) " in *" $$group "*) ;; *) echo "test-all: there is no group $$group; the groups are $(GROUPS)" >&2; exit 2;; esac
	done
	failed=
	for group in $(GROUP); do $(MAKE) "$$group" || failed+=" $$group"; done
	[ -z "$$failed" ] || { echo "test-all: failed:$$failed" >&2; exit 1; }

# What differs least on Python 3.11: modules, which hosts run on their own Python, roles and playbooks.
OLDER := plugins/module_utils plugins/modules roles playbooks
older: # the rest of the unit tests on Python 3.11
	@$(MAKE) unit-old OLD_TESTS="$(OLDER)"

SCENARIOS := $(filter-out default,$(patsubst molecule/%/molecule.yml,%,$(wildcard molecule/*/molecule.yml)))
scenarios: venv # molecule's scenarios of single roles
	@echo "scenarios: $(SCENARIOS)"
	python -m lab build --with docker --with minikube
	for scenario in $(SCENARIOS); do molecule test --scenario-name "$$scenario"; done

$(filter-out older scenarios,$(GROUPS)): venv
	@echo "$@: $(tests_$@)"
	$(PYTEST) $(addprefix tests/integration/,$(tests_$@))

groups: # print the groups, each with its tests; .ci/select_group.py selects one of them
	@$(foreach group,$(GROUPS),echo $(group) $(tests_$(group));)

labs: # print the names of the labs that the long tests use
	@echo molecule-default $(addprefix molecule-,$(SCENARIOS)) $(addprefix $${GPULAB_TEST_PREFIX:-it}-,$(LABS))

docs-tools: # the environment of the site, of antsibull-docs and of Galaxy's importer
	@.ci/make-venv $(DOCS) requirements-docs.txt 3.13 3.12

# The importer without ansible-lint, which make lint runs itself.
docs-lint: export GALAXY_IMPORTER_RUN_ANSIBLE_LINT := false
docs-lint: export GALAXY_IMPORTER_CHECK_REQUIRED_TAGS := true
docs-lint: docs-tools
	@export PATH="$(CURDIR)/$(DOCS)/bin:$$PATH"
	antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck --validate-collection-refs=self .
	rm -rf .cache/package && mkdir -p .cache/package
	ansible-galaxy collection build --output-path .cache/package . >/dev/null
	cd .cache/package
	python -m galaxy_importer.main ./*.tar.gz >import.log || { cat import.log; exit 1; }
	! grep -E '^(WARNING|ERROR)' import.log

site: docs-tools ## build the documentation's site, .cache/site/html/index.html (half a minute)
	@echo "site: guides, and the reference by antsibull-docs"
	export PATH="$(CURDIR)/$(DOCS)/bin:$$PATH" ANSIBLE_COLLECTIONS_PATH=.cache/site/collections
	rm -rf .cache/site
	install -d -m 755 .cache/site/source/reference
	# Only the public filters, which have their own documentation.
	collection=.cache/site/collections/ansible_collections/gpulab/kubernetes
	mkdir -p $$collection
	git ls-files -co --exclude-standard galaxy.yml meta docs/docsite plugins roles | tar -cf - -T - | tar -xf - -C $$collection
	rm $$collection/plugins/filter/*.py
	cp docs/docsite/public_filters.py $$collection/plugins/filter/
	antsibull-docs collection --use-current --squash-hierarchy --fail-on-error --dest-dir .cache/site/source/reference gpulab.kubernetes
	git ls-files -co --exclude-standard '*.md' CHANGELOG.rst docs/images | tar -cf - -T - | tar -xf - -C .cache/site/source
	mv .cache/site/source/README.md .cache/site/source/index.md
	sphinx-build -q -W --keep-going -j auto -c docs/docsite .cache/site/source .cache/site/html

lint: venv ## ruff, mypy, yamllint, generated documents, ansible-lint (production), ansible-test sanity
	@echo "lint: 1/6 ruff"
	ruff check --quiet .
	ruff format --quiet --check .
	echo "lint: 2/6 generated documents, vocabulary, changelog fragments, upstream.lock"
	python docs/generate.py --check
	python tests/sanity/words.py
	antsibull-changelog lint
	python -m upstream --check
	echo "lint: 3/6 ansible-test sanity (2 minutes); the rest runs in parallel"
	$(MAKE) lint-rest & rest=$$!
	failed=0
	python tests/sanity/run.py || failed=1
	wait $$rest || { echo "lint: a check of 4/6 to 6/6 failed, see above" >&2; failed=1; }
	exit $$failed

lint-rest: venv
	@echo "lint: 4/6 mypy and yamllint"
	mypy --no-error-summary plugins examples lab tests docs upstream .ci/select_group.py
	yamllint --strict .
	echo "lint: 5/6 antsibull-docs, Galaxy's importer"
	if .ci/make-venv $(DOCS) requirements-docs.txt 3.13 3.12; then $(MAKE) docs-lint
	elif [ $$? -eq 3 ]; then echo "lint: no Python 3.12 or 3.13 here, antsibull-docs and Galaxy's importer don't run"
	else exit 1; fi
	echo "lint: 6/6 ansible-lint, production profile"
	ansible-lint --offline -q --strict

unit: venv ## unit tests, also on Python 3.11 with ansible-core 2.19 if it is installed
	@echo "unit: tests/unit on $$(python --version)"
	$(PYTEST) --numprocesses=4 --dist=worksteal tests/unit
	$(MAKE) unit-old

# All plugins but those of the group older, a first run of site.yml, and errors of preflight from several hosts.
OLD_PLAYS := test_site_trace.py::test_site_matches_its_stored_trace[bare] \
  test_preflight.py::test_all_problems_are_reported_together_and_later_plays_do_not_run \
  test_preflight.py::test_invalid_variables_of_all_roles_are_named_before_any_connection
unit-old: OLD_TESTS ?= $(addprefix playbooks/,$(OLD_PLAYS)) $(filter-out $(OLDER) %/__pycache__,$(patsubst tests/unit/%/,%,$(wildcard tests/unit/plugins/*/)))
unit-old: venv
	@if .ci/make-venv $(OLD) requirements-old.txt 3.11; then
	  echo "unit: $(OLD_TESTS), and a syntax check, on $$($(OLD)/bin/python --version) with ansible-core 2.19"
	  $(OLD)/bin/python -m pytest --numprocesses=4 --dist=worksteal --hypothesis-profile=few $(addprefix tests/unit/,$(OLD_TESTS))
	  PATH="$(CURDIR)/$(OLD)/bin:$$PATH" $(OLD)/bin/ansible-playbook -i inventories/three-machines.ini --syntax-check site.yml playbooks/*.yml
	elif [ $$? -eq 3 ]; then echo "unit: no Python 3.11 on this machine, ansible-core 2.19 is not tested"
	else exit 1; fi

fuzz: N ?= 300
fuzz: venv ## damaged and hostile input for every reader: N=300 examples each, SEED=1 to repeat a run
	@echo "fuzz: $(N) examples for each reader$(if $(SEED),, seed $(SEED))"
	GPULAB_FUZZ_EXAMPLES=$(N) $(PYTEST) --numprocesses=4 --dist=worksteal $(if $(SEED),--hypothesis-seed=$(SEED)) tests/unit/test_fuzz.py

fire: N ?= 20
fire: PLAY ?= site.yml
fire: MINUTES ?= 1000
fire: venv ## interrupt PLAY=site.yml at N=20 points by kills and power cuts, and run it again (5 minutes a point)
	@PYTHONPATH=.:tests python -m fire $(PLAY) --points $(N) --minutes $(MINUTES) --steps '$(STEPS)' $(if $(SEED),--seed $(SEED)) $(ARGS)

report-test: venv $(AXE) ## the report's page in Chromium, which is installed if it's missing, with axe (1 minute)
	@echo "report-test: looks, accessibility and escaping of the page"
	$(PYTEST) tests/report

# Without what it drives browsers with.
$(AXE):
	@python -m pip install --quiet --no-deps --target .cache/axe axe-playwright-python==0.1.8

gpu-kit: venv ## pack gpu-kit.tar.gz, which checks the claims about GPUs on a machine that has one (5 minutes the first time)
	@echo "gpu-kit: the collection, Python packages, NVIDIA's container toolkit and runc"
	PYTHONPATH=.:tests python -m gpu_check.build gpu-kit.tar.gz

gpu-check: gpu-kit ## check them on this machine's GPUs; ARGS="--script FILE" also runs a script on them (3 minutes)
	@echo "gpu-check: readers, modules, CDI, isolation, a kernel and a training on this machine's GPUs"
	.cache/gpu-kit/gpu-check/gpu-check $(ARGS)

pictures: venv ## make docs/images again: the report in Chromium, and the terminal, on labs (10 minutes)
	@echo "pictures: the report"
	python tests/report/picture.py docs/images
	echo "pictures: the terminal, with simulated hosts and on two labs"
	python -m lab build
	python tests/report/terminal.py docs/images

galaxy: venv ## the collection built, installed, and called by its name from another directory, also by too old an Ansible
	@echo "galaxy: build, install, syntax check from another directory; what ansible-core 2.16 and 2.17 say"
	$(PYTEST) --numprocesses=2 tests/packaging

molecule: venv ## molecule on its own lab (about 6 minutes once packages and images are built)
	@echo "molecule: create, check, converge, idempotence, verify, destroy on the lab molecule-default"
	python -m lab build --with torch
	molecule test --scenario-name default

awx-tools: # the environment for playbooks/awx_configure.yml, which needs the collection awx.awx
	@.ci/make-venv $(AWX) requirements-awx.txt 3.13 3.12 3.11

wandb-tools: # the environment for playbooks/wandb_launch.yml, which needs W&B's SDK on the controller
	@.ci/make-venv $(WANDB) requirements-wandb.txt 3.13 3.12 3.11

bench: venv ## print benchmark figures as JSON: site.yml, the same by hand, the second run
	@python tests/bench/bench.py

# CHECKS= leaves the tests out, where the same commit has passed them.
CHECKS ?= test
release: venv ## test and build a release of the collection, print the commands that publish it (CHECKS= builds only)
	@version=$$(sed -n 's/^version: //p' galaxy.yml)
	refuse() { echo "release: $$1. Nothing was built" >&2; exit 1; }
	case $$version in *-*) refuse "galaxy.yml says $$version, which is no release; write the release's version there, in execution-environment*.yml and in plugins/module_utils/_first_run.py, run antsibull-changelog release, and commit";; esac
	[ -z "$$(git status --porcelain)" ] || refuse "the checkout has changes that are not committed (git status)"
	grep -qx "v$$version" CHANGELOG.rst || refuse "CHANGELOG.rst has no v$$version; run antsibull-changelog release, and commit"
	[ -z "$$(ls changelogs/fragments)" ] || refuse "changelogs/fragments has changes that are in no release; a release has taken them all into CHANGELOG.rst"
	! git rev-parse --quiet --verify "refs/tags/v$$version" >/dev/null || [ "$$(git rev-parse "v$$version^{commit}")" = "$$(git rev-parse HEAD)" ] || refuse "the tag v$$version belongs to another commit; a new release needs a new version"
	for check in $(CHECKS); do $(MAKE) $$check; done
	archive=gpulab-kubernetes-$$version.tar.gz
	ansible-galaxy collection build --force --output-path . . >/dev/null
	echo "release: $$archive, SHA-256 $$(sha256sum "$$archive" | cut -d ' ' -f 1). These commands publish it, with the execution environment:"
	echo "  git tag --sign --message='Release $$version' v$$version $$(git rev-parse HEAD) && git push origin v$$version"
	echo "  ansible-galaxy collection publish $$archive --token TOKEN"
	echo "  ansible-builder build --tag REGISTRY/gpulab-ee:$$version && podman push REGISTRY/gpulab-ee:$$version"

docs: venv ## generate the reference, docs/variables.md, docs/cuda.md and the versions table
	@echo "docs: from argument specifications, ansible-doc, and the tables of versions and CUDA"
	python docs/generate.py

verify-upstream: venv ## compare upstream.lock with upstream, list versions that are behind; WRITE=1 updates it (needs internet)
	@echo "verify-upstream: repositories, keys, images and downloads in upstream.lock"
	python -m upstream $(if $(filter-out 0,$(WRITE)),--write) $(if $(CA),--ca $(CA))

clean: ## remove caches and built packages from the checkout, but no running lab
	@echo "clean: .cache, tool caches, built packages; .venv (rm -r $(VENV) removes it) and reports stay"
	rm -rf .cache .ansible .mypy_cache .pytest_cache .ruff_cache .hypothesis gpulab-kubernetes-*.tar.gz
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
