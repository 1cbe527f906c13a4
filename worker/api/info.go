package api

import (
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// pool is this worker's pool, without what was set aside.
func (a *API) pool(l bulkhead.Limits) int {
	if a.cfg.Role == worker.Prefill {
		return int(l.PrefillPool)
	}
	return int(l.DecodePool)
}

// use is how the pages of this worker's pool are used.
func (a *API) use(s worker.Snapshot) worker.PoolUse {
	if a.cfg.Role == worker.Prefill {
		return s.Prefill
	}
	return s.Decode
}

// serverInfo is GET /server_info: what the operator set and what the model is, and nothing of what tenants do.
func (a *API) serverInfo(p *reply, _ *http.Request) *bulkhead.Refusal {
	l, s := a.cfg.Worker.Limits(), a.cfg.Worker.Snapshot()
	draining := a.draining.Load() || s.Draining
	status := "ready"
	if draining {
		status = "draining"
	}
	m := a.cfg.Model
	p.json(http.StatusOK, sglang.ServerInfo{
		Mode: a.cfg.Role.String(), BootstrapPort: a.port, Backend: "bulkhead", ModelPath: m.Name, ServedModel: m.Name,
		PageSize: l.PageTokens, ContextLength: int(l.Window), MaxTotalTokens: a.pool(l), MaxInputLen: max(int(l.Window)-1, 0),
		MaxRunning: l.Running, KVCacheDtype: "float16", TPSize: 1, DPSize: 1, PPSize: 1, LoadBalance: "auto", Status: status, Version: a.cfg.Version,
		Native: sglang.NativeInfo{
			Name: a.cfg.Name, Start: a.cfg.Start, Fingerprint: hex.EncodeToString(m.Fingerprint[:]),
			Layout: hex.EncodeToString(a.cfg.Layout.AppendFingerprint(nil)), Kernels: m.Kernels, Handoff: a.cfg.Handoff,
			Window: int(l.Window), ModelWindow: int(l.ModelWindow), Pool: a.pool(l), Queue: l.Queue, QueueTenant: l.QueueTenant,
			Running: l.Running, Chunk: int(l.Chunk), Draining: draining,
		},
	})
	return nil
}

// modelInfo is GET /model_info, by SGLang's names.
func (a *API) modelInfo(p *reply, _ *http.Request) *bulkhead.Refusal {
	m := a.cfg.Model
	p.json(http.StatusOK, struct {
		ModelPath     string   `json:"model_path"`
		ServedModel   string   `json:"served_model_name"`
		TokenizerPath string   `json:"tokenizer_path"`
		IsGeneration  bool     `json:"is_generation"`
		WeightVersion string   `json:"weight_version"`
		ModelType     string   `json:"model_type"`
		Architectures []string `json:"architectures"`
		Images        bool     `json:"has_image_understanding"`
		Audio         bool     `json:"has_audio_understanding"`
	}{m.Name, m.Name, m.Name, true, hex.EncodeToString(m.Fingerprint[:8]), m.Arch, []string{m.Arch}, false, false})
	return nil
}

// loads is GET /v1/loads, as JSON or, with format=prometheus, as /metrics has it.
func (a *API) loads(p *reply, r *http.Request) *bulkhead.Refusal {
	switch format := r.URL.Query().Get("format"); format {
	case "", "json":
	case "prometheus":
		p.status = http.StatusOK
		promhttp.HandlerFor(a.cfg.Registry, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(p.w, r)
		return nil
	default:
		return bulkhead.Refuse(bulkhead.CodeInvalid, "format", "the format %q is neither json nor prometheus", short(format))
	}
	if rank := r.URL.Query().Get("dp_rank"); strings.Trim(rank, "0") != "" {
		return bulkhead.Refuse(bulkhead.CodeInvalid, "dp_rank", "there is no rank %q: a worker has one, 0", short(rank))
	}
	p.json(http.StatusOK, sglang.Loads{Timestamp: time.Now().UTC().Format(time.RFC3339Nano), Version: a.cfg.Version, DPRanks: 1,
		Loads: []sglang.Load{a.load(a.cfg.Worker.Snapshot())}})
	return nil
}

// load is a snapshot by SGLang's names.
func (a *API) load(s worker.Snapshot) sglang.Load {
	use := a.use(s)
	page := s.Limits.PageTokens
	l := sglang.Load{
		Running: s.Running, Waiting: s.Waiting, UsedTokens: (use.Live + use.Quarantined) * page,
		MaxTokens: (use.Pages - use.SetAside) * page, MaxRunning: s.Limits.Running,
	}
	l.TotalTokens = l.UsedTokens
	if l.MaxTokens > 0 {
		l.TokenUsage = float64(l.UsedTokens) / float64(l.MaxTokens)
	}
	l.Disaggregation.Mode = a.cfg.Role.String()
	if a.cfg.Role == worker.Prefill {
		l.Running = s.Prefilling
		l.Disaggregation.Inflight = s.HandingOver
	} else {
		l.Disaggregation.Prealloc, l.Disaggregation.Transfer, l.Disaggregation.SetBack = s.Waiting, s.HandingOver, s.SetBack
	}
	return l
}
