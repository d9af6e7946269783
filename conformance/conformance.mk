conformance: native ## Run ExecuTorch's own NXP tests against Deuteron (hours); ARGS are those of `python -m conformance`
	@echo "== conformance"
	@$(PY) -m conformance --jobs $(JOBS) $(ARGS)

.PHONY: conformance
