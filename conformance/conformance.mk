conformance: native ## Run ExecuTorch's own NXP tests against Deuteron (hours); ARGS are those of `python -m conformance`
	@echo "== conformance: NXP"
	@$(PY) -m conformance --jobs $(JOBS) $(if $(SCHEDULER),--scheduler $(SCHEDULER)) $(ARGS)

conformance-cortex-m: native board-packages ## Run ExecuTorch's own Cortex-M tests, on the host and on an emulated board (minutes); ARGS as above
	@echo "== conformance: Cortex-M"
	@$(PY) -m conformance --backend cortex_m --jobs $(JOBS) $(if $(SCHEDULER),--scheduler $(SCHEDULER)) --json build/conformance/cortex_m/report.json $(ARGS)

conformance-ethos-u: native ## Run ExecuTorch's own tests of Ethos-U55 and -U65 that want Arm's simulator, without it (hours); ARGS as above
	@echo "== conformance: Ethos-U55 and -U65"
	@$(PY) -m conformance --backend ethos_u --jobs $(JOBS) $(if $(SCHEDULER),--scheduler $(SCHEDULER)) --json build/conformance/ethos_u/report.json $(ARGS)

conformance-ethos-u85: native ## Run those that want the simulator of an Ethos-U85, without it (hours); ARGS as above
	@echo "== conformance: Ethos-U85"
	@$(PY) -m conformance --backend ethos_u85 --jobs $(JOBS) $(if $(SCHEDULER),--scheduler $(SCHEDULER)) --json build/conformance/ethos_u85/report.json $(ARGS)

.PHONY: conformance conformance-cortex-m conformance-ethos-u conformance-ethos-u85
